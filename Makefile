# The two commands of a newcomer are `make demo` and `make test`; the rest is what they are made of.

BUILD_DIR ?= build
ASAN_DIR ?= build-asan
FUZZ_DIR ?= build-fuzz
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
CMAKE_FLAGS ?=
ALONE_DIR ?= build-alone
TOGETHER_DIR ?= build-together
# Files are compiled several at a time, but those that are worked on; OFF: each alone (cmake/compiled_together.cmake).
UNITY ?= ON
# Of `make tests`: what to build, everything unless named.
TARGETS ?=

# What reads files that others made; CI runs these under the sanitizers, `make asan` runs everything.
READER_TESTS := io_test tokenize_test data_test models_test readers_test

.PHONY: setup setup-dev build tests test mutate demo demo-lm asan asan-readers fuzz bench tidy tidy-changed \
  check-alone check-alone-changed check-together check-together-changed format check-format install clean

# Packages that are missing (apt-get; sudo unless root): to build, test and run the demo; to develop.
setup:
	@scripts/setup.sh

setup-dev:
	@scripts/setup.sh --dev

$(BUILD_DIR)/build.ninja:
	cmake -S . -B $(BUILD_DIR) -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=$(UNITY) $(CMAKE_FLAGS)

$(ASAN_DIR)/build.ninja:
	cmake -S . -B $(ASAN_DIR) -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSHOEHORN_SANITIZE=ON -DCMAKE_UNITY_BUILD=$(UNITY) $(CMAKE_FLAGS)

# build/shoehorn, and nothing else.
build: setup
	@$(MAKE) --no-print-directory $(BUILD_DIR)/build.ninja
	@scripts/compile_alone.sh $(BUILD_DIR)
	cmake --build $(BUILD_DIR) --parallel $(JOBS) --target shoehorn

# Everything, test programs included; TARGETS="io_test shoehorn": these.
tests: setup
	@$(MAKE) --no-print-directory $(BUILD_DIR)/build.ninja
	@scripts/compile_alone.sh $(BUILD_DIR)
	cmake --build $(BUILD_DIR) --parallel $(JOBS) $(if $(TARGETS),--target $(TARGETS))

asan-readers: setup
	@$(MAKE) --no-print-directory $(ASAN_DIR)/build.ninja
	@scripts/compile_alone.sh $(ASAN_DIR)
	cmake --build $(ASAN_DIR) --parallel $(JOBS) --target $(READER_TESTS)

# The last line is "N passed, N failed, N skipped". Tests of a pretrained encoder are skipped where it cannot be fetched.
# CI adds SANITIZED_DIR=build-asan: the tests of that build, too.
test: tests
	@scripts/fetch_minilm.sh || echo "no pretrained encoder: its tests will be skipped"
	@scripts/run_tests.py $(BUILD_DIR) $(SANITIZED_DIR)

# The whole suite under AddressSanitizer and UndefinedBehaviorSanitizer.
asan: setup
	@$(MAKE) --no-print-directory $(ASAN_DIR)/build.ninja
	@scripts/compile_alone.sh $(ASAN_DIR)
	cmake --build $(ASAN_DIR) --parallel $(JOBS)
	@scripts/run_tests.py $(ASAN_DIR)

# Breaks the code on purpose and writes docs/mutants.md: which test noticed. Takes hours; see scripts/mutate.py.
mutate: setup
	@scripts/mutate.py --jobs $(JOBS)

# Fuzzes each reader of outside files for FUZZ_SECONDS (60), or until it was given FUZZ_RUNS inputs or FUZZ_CPU_SECONDS in
# all, this run and earlier ones; FUZZ_READERS="csv flags": only those.
fuzz:
	@scripts/fuzz.py $(FUZZ_DIR) $(FUZZ_READERS) --jobs $(JOBS) $(if $(FUZZ_SECONDS),--seconds $(FUZZ_SECONDS)) \
	  $(if $(FUZZ_RUNS),--runs $(FUZZ_RUNS)) $(if $(FUZZ_CPU_SECONDS),--cpu_seconds $(FUZZ_CPU_SECONDS)) \
	  $(if $(FUZZ_MAX_LEN),--max_len $(FUZZ_MAX_LEN)) $(FUZZ_FLAGS)

# Fine-tunes a pretrained encoder on real texts; see demo/run.sh.
demo: build
	@demo/run.sh $(BUILD_DIR)/shoehorn

# Micro-benchmarks of kernels, packing, data and tokenizer. Against the Hugging Face Trainer: bench/README.md.
bench: setup-dev tests
	@for program in $$(find $(BUILD_DIR) -name '*_bench' -type f -perm -u+x | sort); do $$program || exit 1; done

tidy: setup-dev tests
	@scripts/tidy.sh $(BUILD_DIR)

tidy-changed: setup-dev tests
	@scripts/tidy.sh $(BUILD_DIR) --changed

# Every source includes what it uses: compiles without the others of its room and without precompiled headers. Takes some
# 20 minutes of a processor; of the sources that differ from the last commit, seconds.
check-alone: setup-dev
	@scripts/check_sources.py alone $(ALONE_DIR) --jobs $(JOBS)

check-alone-changed: setup-dev
	@scripts/check_sources.py alone $(ALONE_DIR) --jobs $(JOBS) --changed

# The sources of a room compile together as CI's new folder groups them, which a folder in use does not: it compiles what
# was changed in it alone.
check-together: setup-dev
	@scripts/check_sources.py together $(TOGETHER_DIR) --jobs $(JOBS)

check-together-changed: setup-dev
	@scripts/check_sources.py together $(TOGETHER_DIR) --jobs $(JOBS) --changed

format:
	@scripts/check_format.sh --fix

check-format:
	@scripts/check_format.sh

# Trains a small GPT from scratch on real texts, and shows what it writes; see demo/language_model.sh.
demo-lm: build
	@demo/language_model.sh $(BUILD_DIR)/shoehorn

install: build
	cmake --build $(BUILD_DIR) --parallel $(JOBS) --target shoehorn_archive
	cmake --install $(BUILD_DIR) --prefix $(PREFIX)

clean:
	rm -rf $(BUILD_DIR) $(ASAN_DIR) $(FUZZ_DIR) $(ALONE_DIR) $(TOGETHER_DIR)
