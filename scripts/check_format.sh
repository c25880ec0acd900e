#!/bin/sh
# Lists the C++ files that differ from what clang-format makes of them; exit 1 if there are any. --fix rewrites them.
set -eu

cd "$(dirname "$0")/.."
clang_format=${CLANG_FORMAT:-clang-format-19}
if ! command -v "$clang_format" > /dev/null; then
  echo "no $clang_format: make setup-dev installs it" >&2
  exit 1
fi
sources() { find src tests examples bench fuzz -name '*.cc' -o -name '*.h' | LC_ALL=C sort; }

if [ "${1:-}" = --fix ]; then
  sources | xargs "$clang_format" -i
  exit 0
fi
if ! sources | xargs "$clang_format" --dry-run -Werror 2> /dev/null; then
  for file in $(sources); do "$clang_format" "$file" | cmp -s - "$file" || echo "not formatted: $file"; done
  echo "make format rewrites them" >&2
  exit 1
fi
