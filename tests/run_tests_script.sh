#!/bin/sh
# scripts/run_tests.sh counts what it cannot see the tests of as a failure: programs that end without a summary, and
# folders without programs.
#
#   tests/run_tests_script.sh
#
# Exit: 0, or 1 after a line that says what was expected.
set -eu
export TEST_PROCESSES=1

script=$(cd "$(dirname "$0")/.." && pwd)/scripts/run_tests.sh
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

# Makes the program FOLDER/some_test of a script.
program() {
  mkdir -p "$directory/$1"
  : > "$directory/$1/CTestTestfile.cmake"
  printf '#!/bin/sh\n%s\n' "$2" > "$directory/$1/some_test"
  chmod +x "$directory/$1/some_test"
}

# EXIT_CODE LAST_LINE FOLDER…: the script's exit code and its last line, run on these folders.
expect() {
  expected_code=$1; expected_line=$2; shift 2
  code=0
  output=$(cd "$directory" && "$script" "$@" 2>&1) || code=$?
  line=$(printf '%s\n' "$output" | tail -n 1)
  [ "$code" -eq "$expected_code" ] && [ "$line" = "$expected_line" ] && return
  printf '%s\nexpected exit code %s and "%s" of %s, got %s\n' "$output" "$expected_code" "$expected_line" "$*" "$code"
  exit 1
}

program passes 'echo "[  PASSED  ] 2 tests."'
program fails 'echo "[  PASSED  ] 1 test."; echo "[  FAILED  ] 3 tests, listed below:"; exit 1'
program crashes 'echo "[ RUN      ] A.B"; kill -SEGV $$'
program leaves 'echo "[ RUN      ] A.B"; exit 0'
program leaks 'echo "[  PASSED  ] 2 tests."; exit 23'
mkdir "$directory/empty"

expect 0 '2 passed, 0 failed, 0 skipped' passes
expect 0 '2 passed, 0 failed, 0 skipped' passes passes
expect 1 '1 passed, 3 failed, 0 skipped' fails
expect 1 '2 passed, 1 failed, 0 skipped' leaks
for folder in crashes leaves leaks empty absent; do
  expect 1 '2 passed, 1 failed, 0 skipped' passes "$folder"
done
expect 1 '2 passed, 3 failed, 0 skipped' passes fails
for folder in crashes leaves; do
  expect 1 '0 passed, 2 failed, 0 skipped' "$folder"  # it, and that there is nothing that passed
done

# Each process has its share; one that crashes hides nothing of the other.
program shares 'echo "[  PASSED  ] $((GTEST_SHARD_INDEX + 2)) tests."; [ "$GTEST_TOTAL_SHARDS" -eq 2 ]'
program half_crashes '[ "$GTEST_SHARD_INDEX" -eq 1 ] || kill -SEGV $$; echo "[  PASSED  ] 5 tests."'
export TEST_PROCESSES=2
expect 0 '5 passed, 0 failed, 0 skipped' shares
expect 1 '5 passed, 1 failed, 0 skipped' half_crashes
