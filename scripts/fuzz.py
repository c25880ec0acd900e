#!/usr/bin/env python3
"""Builds the fuzzers of the readers of outside files and runs them, in pieces that add up; docs/fuzzing.md tells more.

  scripts/fuzz.py BUILD_DIR [READER...] [--seconds S] [--runs N] [--cpu_seconds S] [--jobs N] [--slice S]
                  [--max_len BYTES[,BYTES...]]
  scripts/fuzz.py BUILD_DIR [READER...] --status | --minimize | --record

Without a total each reader runs for --seconds (60). --runs and --cpu_seconds are totals, over all calls and all versions of
the code, of what a reader was given: it runs until it has one of them, for --seconds in this call at most if those are
given. Readers take turns of --slice seconds, --jobs of them at a time; of several --max_len each turn has the next one.
--status runs nothing and prints the table. --minimize replaces each corpus by inputs of it that reach the same. --record
moves the totals into fuzz/record.json, which is committed: they count there as they did, on every machine.

In BUILD_DIR/fuzz stay the inputs that reached something new (corpus/READER), which the next run begins with, the findings
(findings/READER), the logs (READER.log, of the last turn) and the totals (totals.json). Totals are written after each turn;
a run that is interrupted has its last turns counted, too.

Exit: 0, or 1 if there is a finding.
"""

import argparse
import collections
import contextlib
import datetime
import fcntl
import functools
import glob
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMPILER = "clang++-19"
INTERRUPTED = 72  # libFuzzer's exit code after SIGINT
FEWEST_INPUTS = 100  # of a turn
MOST_SECONDS = 1  # of processor, for an input alone

# Longest inputs, in bytes. A reader whose time grows with the length of a text and not with what it says gets more inputs,
# in turns of what the largest buffer of it holds (256 bytes, in tokenize/bert_normalizer.cc) and of four times that.
MAX_LEN = collections.defaultdict(lambda: [4096], text=[256, 1024])

# detect_stack_use_after_return would take half of the time. quarantine: freed memory of the last inputs; more of it does not
# fit the processor's cache. max_malloc_fill_size: new memory is filled, so that what reads it unset is seen; all of a large
# buffer takes long. malloc_context_size: whoever wants the stack of an allocation runs the finding alone.
ASAN_OPTIONS = ("allocator_may_return_null=1:detect_stack_use_after_return=0:quarantine_size_mb=2:max_malloc_fill_size=256:"
                "malloc_context_size=1")


def run(command, **options):
    return subprocess.run(command, check=False, **options)


def text_of(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def build_fuzzers(build, jobs):
    program = 'extern "C" int LLVMFuzzerTestOneInput(const char*, long) { return 0; }'
    probe = [COMPILER, "-x", "c++", "-", "-fsanitize=fuzzer,address", "-fopenmp", "-o", os.devnull]
    if shutil.which(COMPILER) is None or run(probe, input=program, text=True, stderr=subprocess.DEVNULL).returncode != 0:
        sys.exit(f"no {COMPILER} with libFuzzer and OpenMP (clang-19, libclang-rt-19-dev, libomp-19-dev): make setup-dev")
    commands = [["cmake", "--build", build, "--parallel", str(jobs), "--target", "fuzzers"]]
    if not os.path.exists(os.path.join(build, "build.ninja")):
        commands.insert(0, ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                            "-DSHOEHORN_FUZZ=ON", f"-DCMAKE_CXX_COMPILER={COMPILER}"])
    for command in commands:
        if run(command).returncode != 0:
            sys.exit(1)


class ReaderCode:
    """What a reader's program is made of: of each object in it the files of this repository it was compiled from."""

    def __init__(self, build):
        self.build = build
        self.files_of_object = {}
        self.texts = {}
        listing = run(["ninja", "-C", build, "-t", "deps"], stdout=subprocess.PIPE, text=True).stdout
        for line in listing.splitlines():
            if line.startswith(" "):
                files.append(line.strip())
            elif ": #deps" in line:
                files = self.files_of_object[line.split(": #deps")[0]] = []

    def objects(self, reader):
        """From the linker's map, which names the members of archives that are in the program."""
        found = set()
        for line in text_of(os.path.join(self.build, "fuzz", f"{reader}_fuzz.map")).splitlines():
            if line.startswith("LOAD ") and line.endswith(".o"):
                found.add(line[len("LOAD "):])
            elif member := re.match(r"(\S+/)lib(\S+)\.a\((\S+\.o)\)$", line):
                folder, library, name = member.groups()
                # CMake gives an archive's objects no other place.
                found |= {path for path in self.files_of_object
                          if path.startswith(f"{folder}CMakeFiles/{library}.dir/") and path.endswith("/" + name)}
        return found & set(self.files_of_object)

    def without_comments(self, path):
        if path not in self.texts:
            lines = (re.sub(r"//.*", "", line).strip() for line in text_of(path).splitlines())
            self.texts[path] = "\n".join(line for line in lines if line)
        return self.texts[path]

    def hash(self, reader):
        """The same while what the program does is the same, whatever happens to comments and to other code."""
        paths = {os.path.realpath(os.path.join(self.build, path))
                 for name in self.objects(reader) for path in self.files_of_object[name]}
        own = sorted(path for path in paths
                     if path.startswith(ROOT + "/") and not path.startswith(os.path.realpath(self.build) + "/"))
        if not own:
            sys.exit(f"{self.build} is no build of {ROOT}; give another folder")
        digest = hashlib.sha256()
        for path in own:
            digest.update(f"{os.path.relpath(path, ROOT)}\n{self.without_comments(path)}\n".encode())
        return digest.hexdigest()[:12]


NOTHING = {"inputs": 0, "cpu_seconds": 0.0, "edges": 0, "slowest_seconds": 0, "peak_mb": 0, "findings": 0, "last_run": ""}


def sum_of(a, b):
    row = {key: max(a[key], b[key]) for key in NOTHING}
    row["inputs"] = a["inputs"] + b["inputs"]
    row["cpu_seconds"] = round(a["cpu_seconds"] + b["cpu_seconds"], 1)
    row["findings"] = a["findings"] + b["findings"]
    return row


EARLIER = "earlier code"  # in fuzz/record.json, the row of all codes but the last one


class Rows:
    """A file of what each reader was given with each of its codes."""

    def __init__(self, path):
        self.path = path
        self.rows = json.loads(text_of(path)) if os.path.exists(path) else {}

    def of(self, reader, code):
        return self.rows.get(reader, {}).get(code, NOTHING)

    def add(self, reader, code, row):
        self.rows.setdefault(reader, {})[code] = sum_of(self.of(reader, code), row)

    def write(self):
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            json.dump(self.rows, file, indent=1, sort_keys=True)
            file.write("\n")
        os.replace(self.path + ".new", self.path)


class Totals:
    """Runs of this folder (totals.json), and those that were recorded. Safe for threads."""

    def __init__(self, path, record_path):
        self.here = Rows(path)
        self.recorded = Rows(record_path)
        self.lock = threading.Lock()

    def with_code(self, reader, code):
        return sum_of(self.here.of(reader, code), self.recorded.of(reader, code))

    def of(self, reader):
        """With every code."""
        rows = [row for file in (self.here, self.recorded) for row in file.rows.get(reader, {}).values()]
        return functools.reduce(sum_of, rows, NOTHING)

    def add(self, reader, code, turn):
        with self.lock:
            row = {key: getattr(turn, key) for key in NOTHING if key != "last_run"}
            row["last_run"] = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M")
            self.here.add(reader, code, row)
            self.here.write()

    def record(self, codes):
        """Keeps of each reader the present code's row, and one of all codes before."""
        for reader, code in codes.items():
            rows = [*self.here.rows.pop(reader, {}).items(), *self.recorded.rows.pop(reader, {}).items()]
            for key, row in rows:
                self.recorded.add(reader, key if key == code else EARLIER, row)
        self.recorded.write()
        self.here.write()


class Turn:
    """One run of a reader's program, over: what libFuzzer's log says of it."""

    def __init__(self, log, exit_code, cpu_seconds, new_findings):
        self.cpu_seconds = cpu_seconds
        def last(pattern):
            return int((re.findall(pattern, log, re.MULTILINE) or [0])[-1])

        executed = last(r"^stat::number_of_executed_units:\s*(\d+)") or last(r"^#(\d+)\t")
        # Inputs of the corpus, which are run again at each start, are not counted.
        from_corpus = last(r"^#(\d+)\tINITED")
        self.inputs = max(0, executed - from_corpus) if from_corpus else 0
        self.edges = last(r"^#\d+\t.* cov: (\d+) ")
        self.slowest_seconds = last(r"^stat::slowest_unit_time_sec:\s*(\d+)")
        self.peak_mb = last(r"^stat::peak_rss_mb:\s*(\d+)")
        # A program that does not start leaves no finding behind.
        self.findings = max(new_findings, 1 if exit_code not in (0, INTERRUPTED) else 0)


class Fuzzer:
    def __init__(self, options, totals, codes):
        self.options = options
        self.totals = totals
        self.codes = codes
        self.out = os.path.join(options.build, "fuzz")
        self.processes = {}
        self.is_stopped = False
        self.lock = threading.Lock()
        self.seconds_left = {reader: options.seconds for reader in codes}
        self.findings = collections.Counter()
        self.turns = collections.Counter()  # in this call

    def path(self, *parts):
        return os.path.join(self.out, *parts)

    def dictionary(self, reader):
        parts = [text_of(path) for path in (f"{ROOT}/fuzz/dictionaries/json.dict", f"{ROOT}/fuzz/dictionaries/{reader}.dict")
                 if os.path.exists(path)]
        if reader in ("flags", "training_config"):  # names and choices of flags, as their rows have them
            rows = "".join(text_of(path) for path in glob.glob(f"{ROOT}/src/arguments/argument_table_*rows.cc"))
            parts.append("\n".join(sorted(set(re.findall(r'"[a-z][a-z0-9_]+"', rows)))) + "\n")
        with open(self.path(f"{reader}.dict"), "w", encoding="utf-8") as file:
            file.write("".join(parts))
        return self.path(f"{reader}.dict")

    def command(self, reader, max_len):
        return [self.path(f"{reader}_fuzz"), f"-max_len={max_len}", "-timeout=5", "-malloc_limit_mb=512",
                "-rss_limit_mb=1024", "-print_final_stats=1", f"-artifact_prefix={self.path('findings', reader)}/"]

    def finish(self, command, log):
        """Runs to the end. The exit code and the CPU seconds."""
        with self.lock:
            if self.is_stopped:
                return INTERRUPTED, 0.0
            # A session of its own: an interrupt of the terminal comes through stop(), once.
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                       env={**os.environ, "ASAN_OPTIONS": ASAN_OPTIONS, "UBSAN_OPTIONS": "print_stacktrace=1"})
            self.processes[process.pid] = process
        _, status, usage = os.wait4(process.pid, 0)
        with self.lock:
            del self.processes[process.pid]
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, usage.ru_utime + usage.ru_stime

    def stop(self, *_):
        with self.lock:
            self.is_stopped = True
            for pid in self.processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGINT)

    def found(self, reader):
        names = os.listdir(self.path("findings", reader))
        return {name for name in names if not name.startswith("slow-unit-")}

    def waited(self, reader, names):
        """Of the findings those that took long only because others had the processor."""
        alone = {}
        for name in (name for name in names if name.startswith("timeout-")):
            command = [self.path(f"{reader}_fuzz"), self.path("findings", reader, name)]
            with open(os.devnull, "w", encoding="utf-8") as log:
                exit_code, cpu_seconds = self.finish(command, log)
            alone[name] = exit_code == 0 and cpu_seconds < MOST_SECONDS
        return {name for name in alone if alone[name]}

    def goal_left(self, reader):
        """Inputs (None: no matter how many) and seconds of this reader's next turn."""
        total = self.totals.of(reader)
        inputs = None if self.options.runs is None else max(0, self.options.runs - total["inputs"])
        if inputs:  # a few would not be told from those of the corpus
            inputs = max(inputs, FEWEST_INPUTS)
        seconds = [float(self.options.slice)]
        if self.seconds_left[reader] is not None:
            seconds.append(self.seconds_left[reader])
        if self.options.cpu_seconds is not None:
            seconds.append(self.options.cpu_seconds - total["cpu_seconds"])
        return inputs, max(0, int(min(seconds)))

    def is_done(self, reader):
        return 0 in self.goal_left(reader) or self.findings[reader] > 0

    def progress(self, reader):
        total = self.totals.of(reader)
        return max(total["inputs"] / (self.options.runs or float("inf")),
                   total["cpu_seconds"] / (self.options.cpu_seconds or float("inf")))

    def take_turn(self, reader, inputs, seconds):
        corpora = [self.path("corpus", reader), os.path.join(ROOT, "fuzz/corpus", reader)]
        limits = [f"-max_total_time={seconds}"]
        if inputs is not None:  # seeds count there
            limits.append(f"-runs={inputs + 1 + sum(len(os.listdir(folder)) for folder in corpora)}")
        lengths = self.options.max_len or MAX_LEN[reader]
        max_len = lengths[self.turns[reader] % len(lengths)]
        self.turns[reader] += 1
        known = self.found(reader)
        start = time.monotonic()
        with open(self.path(f"{reader}.log"), "w", encoding="utf-8") as log:
            exit_code, cpu_seconds = self.finish(
                [*self.command(reader, max_len), *limits, f"-dict={self.dictionary(reader)}", *corpora], log)
        found = self.found(reader) - known
        waited = self.waited(reader, found)
        for name in waited:
            os.remove(self.path("findings", reader, name))
        if waited == found and waited:
            exit_code = 0
        turn = Turn(text_of(self.path(f"{reader}.log")), exit_code, cpu_seconds, len(found - waited))
        self.totals.add(reader, self.codes[reader], turn)
        self.findings[reader] += turn.findings
        if turn.inputs == 0 and not waited and not self.is_stopped:  # its corpus takes longer than a turn
            self.findings[reader] += 1
        if self.seconds_left[reader] is not None:
            self.seconds_left[reader] -= time.monotonic() - start

    def work(self, queue):
        """What one of the jobs does: gives a turn to the next reader until all have what they are to be given."""
        while not self.is_stopped:
            with self.lock:
                if not queue:
                    return
                reader = queue.popleft()
            if not self.is_done(reader):
                self.take_turn(reader, *self.goal_left(reader))
            if self.is_done(reader):
                print(self.line(reader), flush=True)
            else:
                with self.lock:
                    queue.append(reader)

    def covered(self, reader):
        """Edges: numbers of another code are of another program."""
        return self.totals.with_code(reader, self.codes[reader])["edges"]

    def line(self, reader):
        total = self.totals.of(reader)
        line = f"{reader}: {total['inputs']} inputs in {total['cpu_seconds']} CPU s, {self.covered(reader)} edges covered"
        return line + (f": see {self.path(reader)}.log" if self.findings[reader] else "")

    def each(self, work, items):
        """Calls work(), in as many threads as there are to be jobs, until they return."""
        threads = [threading.Thread(target=work, args=(items,)) for _ in range(self.options.jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def minimize(self, queue):
        while not self.is_stopped:
            with self.lock:
                if not queue:
                    return
                reader = queue.popleft()
            corpus = self.path("corpus", reader)
            smaller = corpus + ".smaller"
            shutil.rmtree(smaller, ignore_errors=True)
            os.makedirs(smaller)
            with open(self.path(f"{reader}.log"), "w", encoding="utf-8") as log:
                exit_code, _ = self.finish([*self.command(reader, max(self.options.max_len or MAX_LEN[reader])), "-merge=1", smaller, corpus], log)
            before, after = len(os.listdir(corpus)), len(os.listdir(smaller))
            if exit_code != 0:
                self.findings[reader] += 1
                print(f"{reader}: not minimized, see {self.path(reader)}.log", flush=True)
                continue
            shutil.rmtree(corpus)
            os.rename(smaller, corpus)
            print(f"{reader}: {before} inputs became {after}", flush=True)

    def table(self):
        rows = [("reader", "inputs", "with present code", "CPU s", "inputs/CPU s", "edges", "corpus", "slowest s", "peak MB",
                 "findings", "last run (UTC)")]
        for reader, code in self.codes.items():
            total = self.totals.of(reader)
            cpu_seconds = total["cpu_seconds"]
            rows.append((reader, f"{total['inputs']:,}", f"{self.totals.with_code(reader, code)['inputs']:,}",
                         f"{cpu_seconds:,.0f}", f"{total['inputs'] / cpu_seconds:,.0f}" if cpu_seconds else "",
                         str(self.covered(reader)), str(len(os.listdir(self.path("corpus", reader)))),
                         str(total["slowest_seconds"]), str(total["peak_mb"]), str(total["findings"]), total["last_run"]))
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        return "\n".join("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                                   for i, (cell, width) in enumerate(zip(row, widths))) for row in rows)


def parse_arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("readers", nargs="*")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--cpu_seconds", type=float)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--slice", type=int, default=120)
    parser.add_argument("--max_len", type=lambda text: [int(length) for length in text.split(",")])
    parser.add_argument("--status", action="store_true")
    parser.add_argument("--minimize", action="store_true")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    all_readers = sorted(os.path.basename(path)[:-len("_fuzz.cc")] for path in glob.glob(f"{ROOT}/fuzz/*_fuzz.cc"))
    options.readers = options.readers or all_readers
    for reader in options.readers:
        if reader not in all_readers:
            parser.error(f"no reader '{reader}'; there are {', '.join(all_readers)}")
    if options.runs is None and options.cpu_seconds is None and options.seconds is None:
        options.seconds = 60.0
    return options


def main():
    options = parse_arguments()
    if not (options.status or options.record):
        build_fuzzers(options.build, options.jobs)
    out = os.path.join(options.build, "fuzz")
    for reader in options.readers:
        os.makedirs(os.path.join(out, "corpus", reader), exist_ok=True)
        os.makedirs(os.path.join(out, "findings", reader), exist_ok=True)
    code = ReaderCode(options.build)
    totals = Totals(os.path.join(out, "totals.json"), os.path.join(ROOT, "fuzz/record.json"))
    fuzzer = Fuzzer(options, totals, {reader: code.hash(reader) for reader in options.readers})
    if options.record:
        totals.record(fuzzer.codes)
    if options.status or options.record:
        print(fuzzer.table())
        return 0

    with open(os.path.join(out, "lock"), "w", encoding="utf-8") as lock, contextlib.ExitStack() as stack:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"another run writes to {out}; wait for it or stop it")
        # Readers of paths get files in memory.
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        os.environ["TMPDIR"] = stack.enter_context(tempfile.TemporaryDirectory(prefix="shoehorn-fuzz-", dir=memory))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, fuzzer.stop)
        queue = collections.deque(sorted(options.readers, key=fuzzer.progress))
        fuzzer.each(fuzzer.minimize if options.minimize else fuzzer.work, queue)
    print(fuzzer.table())
    return 1 if sum(fuzzer.findings.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
