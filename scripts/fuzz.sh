#!/bin/sh
# Builds the fuzzers of the readers of outside files and runs them, one after the other, from the seeds in fuzz/corpus;
# docs/fuzzing.md tells more.
#
#   scripts/fuzz.sh BUILD_DIR [READER...]
#
# FUZZ_RUNS: inputs of each reader, in FUZZ_SECONDS at most if that is given too; without it FUZZ_SECONDS (60).
# In BUILD_DIR/fuzz stay the inputs that reached something new (corpus/READER), which the next run begins with, the
# findings (findings/READER) and the logs.
# Each reader's line is printed as it ends. Exit: 0, or 1 if there is a finding.
set -u

build=$1
shift
root=$(cd "$(dirname "$0")/.." && pwd)
out=$build/fuzz
readers=${*:-$(cd "$root/fuzz" && ls ./*_fuzz.cc | sed 's|^\./||; s|_fuzz\.cc$||')}
if [ -n "${FUZZ_RUNS:-}" ]; then
  limits="-runs=$FUZZ_RUNS ${FUZZ_SECONDS:+-max_total_time=$FUZZ_SECONDS}"
else
  limits=-max_total_time=${FUZZ_SECONDS:-60}
fi

if ! echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, long) { return 0; }' |
    clang++-19 -x c++ - -fsanitize=fuzzer,address -fopenmp -o /dev/null 2> /dev/null; then
  echo "no clang++-19 with libFuzzer and OpenMP (clang-19, libclang-rt-19-dev, libomp-19-dev): make setup-dev" >&2
  exit 1
fi
[ -e "$build/build.ninja" ] ||
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DSHOEHORN_FUZZ=ON -DCMAKE_CXX_COMPILER=clang++-19 ||
  exit 1
cmake --build "$build" --parallel "${JOBS:-$(nproc)}" --target fuzzers || exit 1

# Readers of paths get files in memory.
memory=${TMPDIR:-/tmp}
[ ! -w /dev/shm ] || memory=/dev/shm
TMPDIR=$(mktemp -d "$memory/shoehorn-fuzz-XXXXXX")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 1' INT TERM

# Half the time would go into the search for uses of a stack frame after its return.
export ASAN_OPTIONS=quarantine_size_mb=16:allocator_may_return_null=1:detect_stack_use_after_return=0
export UBSAN_OPTIONS=print_stacktrace=1

# The value of a line "stat::NAME: VALUE" of libFuzzer.
stat() { sed -n "s/^stat::$1: *//p" "$log" | tail -n 1; }

findings=0
for reader in $readers; do
  log=$out/$reader.log
  mkdir -p "$out/corpus/$reader" "$out/findings/$reader"
  dictionary=$out/$reader.dict
  cat "$root/fuzz/dictionaries/json.dict" > "$dictionary"
  [ ! -e "$root/fuzz/dictionaries/$reader.dict" ] || cat "$root/fuzz/dictionaries/$reader.dict" >> "$dictionary"
  # Names and choices of flags, as their rows have them.
  case $reader in flags | training_config)
    grep -ohE '"[a-z][a-z0-9_]+"' "$root"/src/arguments/argument_table_*rows.cc | sort -u >> "$dictionary" ;;
  esac
  start=$(date +%s)
  touch "$out/start"
  # shellcheck disable=SC2086  # one or two words
  "$out/${reader}_fuzz" $limits -max_len="${FUZZ_MAX_LEN:-4096}" -timeout=5 -malloc_limit_mb=512 -rss_limit_mb=1024 \
    -print_final_stats=1 -dict="$dictionary" -artifact_prefix="$out/findings/$reader/" \
    "$out/corpus/$reader" "$root/fuzz/corpus/$reader" > "$log" 2>&1 < /dev/null
  code=$?
  seconds=$(($(date +%s) - start))
  found=$(find "$out/findings/$reader" -type f -newer "$out/start" ! -name 'slow-unit-*' | wc -l)
  # A program that does not start leaves no finding behind.
  [ "$code" -eq 0 ] || [ "$found" -gt 0 ] || found=1
  findings=$((findings + found))
  edges=$(sed -n 's/^#[0-9]*\t.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
  line="$reader: $(stat number_of_executed_units) inputs in $seconds s, ${edges:-no} edges covered, $found findings"
  line="$line (slowest input $(stat slowest_unit_time_sec) s, peak $(stat peak_rss_mb) MB)"
  [ "$found" -eq 0 ] || line="$line: see $log"
  echo "$line"
done
[ "$findings" -eq 0 ]
