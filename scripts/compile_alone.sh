#!/bin/sh
# From now on the sources that differ from the last commit are compiled alone, each of them, in a build folder that compiles
# sources together (cmake/compiled_together.cmake): the next change of such a source compiles nothing else. The others of
# its group are compiled once more, without it.
#
#   scripts/compile_alone.sh BUILD_DIR
#
# Nothing happens where no source differs, without git, and in a folder that compiles each source alone.
set -eu

list=$(cd "$1" && pwd)/compiled_together.txt
cd "$(dirname "$0")/.."
[ -s "$list" ] || exit 0
changed=$(git diff --relative --name-only HEAD -- '*.cc' 2> /dev/null &&
  git ls-files --others --exclude-standard -- '*.cc') || exit 0
[ -n "$changed" ] || exit 0

echo "$changed" | awk '
  NR == FNR { changed[$0]; next }
  ($3 in changed) && $2 != "alone" { print "compiled alone from now on: " $3 > "/dev/stderr"; $2 = "alone" }
  { print }' - "$list" > "$list.new"
if cmp -s "$list" "$list.new"; then rm "$list.new"; else mv "$list.new" "$list"; fi
