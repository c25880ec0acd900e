#!/bin/sh
# Runs every GoogleTest program of a build, one after the other, its tests shared among as many processes as there are
# processors; and whatever else is registered with CTest. Prints the output of those that fail, and in the end why a test
# was skipped, what a failed one said first, and the sum: "N passed, N failed, N skipped".
#
#   [TEST_PROCESSES=N] [TEST_SECONDS=S] scripts/run_tests.sh BUILD_DIR [SANITIZED_BUILD_DIR]
#
# Threads that wait give their processor up (OMP_WAIT_POLICY=passive unless it is set): several programs share them here.
# A program that has not ended after TEST_SECONDS (1,800) is ended, and the test that it was at has failed.
# The programs found in SANITIZED_BUILD_DIR are run too; their tests are the same ones, so only failures count there.
# A folder without test programs is a failure, and so is a program that ends without GoogleTest's summary.
# Exit: 0, or 1 if anything failed.
set -u
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"

build=$1
sanitized=${2:-}
processes=${TEST_PROCESSES:-$(nproc)}
seconds=${TEST_SECONDS:-1800}
logs=$(mktemp -d)
reasons=$logs/reasons    # of the tests that were skipped, a line each
failures=$logs/failures  # of those that failed
: > "$reasons"
: > "$failures"
trap 'rm -rf "$logs"' EXIT
passed=0
failed=0
skipped=0

# The number in a summary line of GoogleTest: "[  PASSED  ] 12 tests."
summary() { sed -n "s/^\[  $1 *\] \([0-9]*\) tests\{0,1\}[.,].*/\1/p" "$log" | tail -n 1; }

run_program() {
  program=$1
  counts_passed=$2
  start=$(date +%s)
  pids=
  for share in $(seq 0 $((processes - 1))); do
    GTEST_TOTAL_SHARDS=$processes GTEST_SHARD_INDEX=$share \
      timeout --kill-after=10 "$seconds" "$program" --gtest_color=no > "$logs/$share" 2>&1 < /dev/null &
    pids="$pids $!"
  done
  program_passed=0; program_failed=0; program_skipped=0
  share=0
  for pid in $pids; do
    code=0
    wait "$pid" || code=$?
    log=$logs/$share
    share=$((share + 1))
    p=$(summary PASSED); s=$(summary SKIPPED); f=$(summary FAILED)
    # A crash, an early exit, or a sanitizer's report at the end leaves no failed test behind.
    if [ "${f:-0}" -eq 0 ] && { [ "$code" -ne 0 ] || [ -z "$p" ]; }; then
      echo "$program: ended with code $code and $([ -n "$p" ] && echo a || echo no) summary of its tests" >> "$log"
      f=1
    fi
    program_passed=$((program_passed + ${p:-0}))
    program_failed=$((program_failed + ${f:-0}))
    program_skipped=$((program_skipped + ${s:-0}))
    [ "${f:-0}" -eq 0 ] || { show_failures; failure_lines >> "$failures"; }
    [ "$counts_passed" -ne 1 ] || skip_reasons >> "$reasons"
  done
  echo "$program: $program_passed passed, $program_failed failed, $program_skipped skipped ($(($(date +%s) - start)) s)"
  failed=$((failed + program_failed))
  if [ "$counts_passed" -eq 1 ]; then
    passed=$((passed + program_passed))
    skipped=$((skipped + program_skipped))
  fi
}

# "TEST: REASON" of each test that GoogleTest skipped: what it printed behind "file:line: Skipped".
skip_reasons() {
  awk '/^\[ RUN / { reason = ""; collects = 0; next }
       /: Skipped$/ { collects = 1; next }
       /^\[  SKIPPED \] [^ ]+ \(/ { print "  " $4 ": " (reason == "" ? "NO REASON GIVEN" : reason); collects = 0 }
       collects && NF { reason = reason (reason == "" ? "" : " ") $0 }' "$log"
}

# The log without the tests that passed or were skipped; of a long one its begin and its end.
show_failures() {
  awk 'function show(   i) {
         for (i = 1; i <= lines; ++i) {
           if (lines > 80 && i == 41) { print "  | … " lines - 80 " lines …"; i = lines - 39 }
           print "  | " line[i]
         }
         lines = 0
       }
       /^\[ RUN / { inside = 1; lines = 0 }
       inside { line[++lines] = $0 }
       /^\[  FAILED  \] [^ ]+ \(/ { if (inside) show(); inside = 0; next }
       /^\[ +OK \]/ || /^\[  SKIPPED \] [^ ]+ \(/ { if (inside) lines = 0; inside = 0; next }
       !inside && NF && !/^\[[-=]*\]/ && !/^\[  SKIPPED/ { print "  | " $0 }
       END { show() }' "$log"
}

# "TEST: what GoogleTest said first" of each test that failed or did not end, in a line.
failure_lines() {
  awk 'function show() { print "  " test ": " (reason == "" ? "ended the program" : substr(reason, 1, 300)); test = "" }
       /^\[ RUN / { test = $4; reason = ""; collects = 0; next }
       /^\[  FAILED  \] [^ ]+ \(/ { if (test != "") show(); next }
       /^\[ +OK \]/ || /^\[  SKIPPED \] [^ ]+ \(/ { test = ""; next }
       / Failure$/ && reason == "" { sub(/^.*\//, ""); reason = $0; collects = 5; next }
       collects && NF { reason = reason " | " $0; --collects }
       END { if (test != "") show() }' "$log"
}

# Every program of a folder; the second argument as run_program's.
run_programs() {
  programs=$(find "$1" -name '*_test' -type f -perm -u+x | LC_ALL=C sort)
  if [ -z "$programs" ]; then
    echo "$1: expected test programs (*_test), got none; build them first" >&2
    failed=$((failed + 1))
  fi
  for program in $programs; do run_program "$program" "$2"; done
}

run_programs "$build" 1
[ -z "$sanitized" ] || run_programs "$sanitized" 0

# CTest's other tests: examples, and scripts that compare with programs which may not be installed. A script that is
# skipped prints "skipped: REASON".
log=$logs/ctest
ctest --test-dir "$build" --parallel "$processes" --timeout "$seconds" --exclude-regex '_test$' --verbose > "$log" 2>&1 < /dev/null
code=$?
p=$(grep -c '^ *[0-9]*/[0-9]* Test .* Passed ' "$log")
s=$(grep -c '^ *[0-9]*/[0-9]* Test .*\*\*\*Skipped ' "$log")
f=$(($(grep -c '^ *[0-9]*/[0-9]* Test ' "$log") - p - s))
if [ "$code" -ne 0 ]; then
  [ "$f" -gt 0 ] || f=1
  sed 's/^/  | /' "$log"
  sed -n 's/^ *[0-9]*\/[0-9]* Test *#[0-9]*: \([^ ]*\).*\*\*\*\([^0-9]*\).*/  \1: \2/p' "$log" | grep -v ': Skipped' >> "$failures"
fi
# Lines of a test begin with its number; those of several mingle.
awk '/^[0-9]+: skipped: / { number = $1; sub(/:$/, "", number); sub(/^[0-9]+: skipped: /, ""); reason[number] = $0 }
     /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: .*\*\*\*Skipped/ {
       for (i = 1; $i !~ /^#?[0-9]+:$/; ++i);
       number = $i; gsub(/[#:]/, "", number)
       print "  " $(i + 1) ": " (number in reason ? reason[number] : "NO REASON GIVEN")
     }' "$log" >> "$reasons"
[ $((p + s + f)) -eq 0 ] || echo "other tests: $p passed, $f failed, $s skipped"
passed=$((passed + p))
skipped=$((skipped + s))
failed=$((failed + f))

if [ "$passed" -eq 0 ]; then
  echo "$build: expected tests that pass, got none" >&2
  failed=$((failed + 1))
fi
if [ "$skipped" -gt 0 ]; then
  echo "skipped:"
  cat "$reasons"
fi
if [ -s "$failures" ]; then
  echo "failed:"
  cat "$failures"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
