#!/bin/sh
# clang-tidy with the checks of .clang-tidy; exit 1 if it says anything.
#
#   scripts/tidy.sh BUILD_DIR              every source
#   scripts/tidy.sh BUILD_DIR --changed    those that differ from the last commit, or are new
#   scripts/tidy.sh BUILD_DIR --changed REVISION    … from that revision
set -eu

cd "$(dirname "$0")/.."
build=$1
if [ "${2:-}" = --changed ]; then
  files=$({ git diff --name-only --diff-filter=d "${3:-HEAD}"; git ls-files --others --exclude-standard; } |
    grep -E '^(src|tests|examples|bench)/.*\.cc$' || true)
else
  files=$(find src tests examples bench -name '*.cc' | LC_ALL=C sort)
fi
[ -n "$files" ] || { echo "no sources to check"; exit 0; }

# The commands without what clang does not know: GCC's warnings and its precompiled headers.
commands=$(mktemp -d)
trap 'rm -rf "$commands"' EXIT
sed -E 's/ -Wno-(restrict|psabi|maybe-uninitialized)//g; s/ -Winvalid-pch -include [^ ]*cmake_pch\.hxx//' \
  "$build/compile_commands.json" > "$commands/compile_commands.json"
echo "$files" | xargs -n 1 -P "$(nproc)" "${CLANG_TIDY:-clang-tidy-19}" -p "$commands" --quiet
