#include "cli_support.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <string_view>

#include "io/safetensors.h"
#include "models/bert.h"
#include "tokenize/tokenizer.h"
#include "train/trainer.h"

namespace shoehorn::test_support {

namespace {

constexpr useconds_t kLookMicroseconds = 1000;

// VmHWM in /proc/PID/status, which is read anew; 0 until the program has taken the place of this one. There are some thousand looks
// a run.
int64_t peak_in(int status_file) {
  std::array<char, 4096> bytes;
  const ssize_t count = pread(status_file, bytes.data(), bytes.size(), 0);
  const std::string_view status(bytes.data(), static_cast<size_t>(std::max<ssize_t>(0, count)));
  constexpr std::string_view kPeak = "\nVmHWM:";
  const size_t at = status.find(kPeak);
  const bool is_program = status.substr(0, status.find('\n')).find("shoehorn") != std::string_view::npos;
  if (!is_program || at == std::string_view::npos) return 0;
  return std::strtoll(status.data() + at + kPeak.size(), nullptr, 10) * 1024;
}

// The model of CliTest, saved once.
const std::filesystem::path& small_model() {
  static const TestDirectory directory;
  static const std::filesystem::path model = [] {
    const std::filesystem::path tokenizer = golden("tokenizer_small");
    BertConfig config;
    config.vocab_size = Tokenizer::load(tokenizer)->vocab_size();
    config.hidden_size = 32;
    config.num_hidden_layers = 2;
    config.num_attention_heads = 2;
    config.intermediate_size = 64;
    config.max_position_embeddings = 64;
    const BertForSequenceClassification bert(config);
    Dataset any = Dataset::random_tokens({.count = 1, .length = 4, .vocab_begin = 5, .vocab_end = 20});
    TrainerOptions options;
    for (const auto& file : std::filesystem::directory_iterator(tokenizer))
      options.companions.push_back(file.path());
    std::filesystem::path saved = directory.path() / "model";
    Trainer(bert, {}, {}, std::move(any), std::move(options)).save_model(saved);
    return saved;
  }();
  return model;
}

}  // namespace

std::string without_load_notice(const std::string& text) {
  std::string kept;
  for (size_t begin = 0; begin < text.size();) {
    const size_t newline = text.find('\n', begin);
    const size_t end = newline == std::string::npos ? text.size() : newline + 1;
    const std::string line = text.substr(begin, end - begin);
    if (line.find(" of this run want ") == std::string::npos &&
        !line.starts_with("measuring what this machine reaches: "))
      kept += line;
    begin = end;
  }
  return kept;
}

void take_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) std::signal(signal, SIG_DFL);
}

StartedProgram::StartedProgram(const std::vector<std::string>& words, const std::filesystem::path& scratch,
                               const ProgramLimits& limits, const std::string& program)
    : output_(scratch / "stdout"), error_(scratch / "stderr") {
  std::vector<std::string> all = {program};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& word : all) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int out = open(output_.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
  const int err = open(error_.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
  pid_ = fork();
  if (pid_ == 0) {
    // A thread that spins for one that waits for a processor stalls both. Shoehorn sees to that itself.
    if (program != SHOEHORN_PROGRAM) setenv("OMP_WAIT_POLICY", "passive", 0);
    dup2(out, 1);
    dup2(err, 2);
    take_signals();
    if (limits.ignored_signal > 0) signal(limits.ignored_signal, SIG_IGN);
    if (limits.file_bytes > 0) {
      const rlimit limit = {static_cast<rlim_t>(limits.file_bytes), static_cast<rlim_t>(limits.file_bytes)};
      setrlimit(RLIMIT_FSIZE, &limit);
    }
    if (limits.address_space_bytes > 0) {
      const auto bytes = static_cast<rlim_t>(limits.address_space_bytes);
      const rlimit limit = {bytes, bytes};
      setrlimit(RLIMIT_AS, &limit);
    }
    if (!limits.cgroup.empty()) {
      std::ofstream processes(limits.cgroup / "cgroup.procs");
      if (!(processes << getpid()).flush()) _exit(126);
    }
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  close(out);
  close(err);
}

ProgramRun StartedProgram::wait() {
  ProgramRun run;
  const int status_file = open(fmt::format("/proc/{}/status", pid_).c_str(), O_RDONLY | O_CLOEXEC);
  int status = 0;
  pid_t ended = 0;
  while (pid_ > 0 && (ended = waitpid(pid_, &status, WNOHANG)) != pid_) {
    if (ended < 0 && errno != EINTR) break;
    run.peak_bytes = std::max(run.peak_bytes, peak_in(status_file));
    usleep(kLookMicroseconds);
  }
  close(status_file);
  EXPECT_EQ(ended, pid_) << "the program was not run";
  run.exit_code = ended == pid_ && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  run.output = without_load_notice(read_text_file(output_));
  run.error = without_load_notice(read_text_file(error_));
  return run;
}

std::string labelled_csv(int64_t rows, uint32_t seed, const LabelNames& labels) {
  static const std::vector<std::string> words = {"stat", "cest", "hust", "chai",
                                                 "trou", "prea", "vous", "that"};
  std::mt19937 random(seed);
  std::string csv = "text,label\n";
  for (int64_t i = 0; i < rows; ++i) {
    const bool up = random() % 2 == 0;
    const size_t length = 3 + random() % 12;
    const size_t place = random() % length;
    for (size_t t = 0; t < length; ++t)
      csv += (t == 0 ? "" : " ") + (up && t == place ? "glea" : words[random() % words.size()]);
    csv += "," + (up ? labels.up : labels.down) + "\n";
  }
  return csv;
}

std::string long_labelled_csv(int64_t thousands, uint32_t seed, const LabelNames& labels) {
  std::string csv = labelled_csv(1000, seed, labels);
  const std::string rows = csv.substr(csv.find('\n') + 1);
  for (int64_t i = 1; i < thousands; ++i) csv += rows;
  return csv;
}

CliTest::CliTest() {
  setenv("XDG_CACHE_HOME", path("user_cache").c_str(), 1);
  std::filesystem::copy(small_model(), model());
  directory_.write("train.csv", labelled_csv(48, 1));
  directory_.write("validation.csv", labelled_csv(24, 2));
}

CliTest::~CliTest() {
  unsetenv("XDG_CACHE_HOME");
}

void CliTest::TearDown() {
  if (lacks_memory_)
    GTEST_SKIP() << "all was checked but the memory of processes, of which a sanitizer takes some";
}

void CliTest::expect_peak_below(const ProgramRun& run, int64_t bytes, const std::string& what) const {
  if (measures_memory()) {
    EXPECT_LT(run.peak_bytes, bytes) << what;
  }
}

ProgramRun CliTest::run(const std::vector<std::string>& words, const ProgramLimits& limits) const {
  return StartedProgram(words, directory_.path(), limits).wait();
}

std::vector<std::string> CliTest::train_words(const std::vector<std::string>& more) const {
  std::vector<std::string> words = {"train",
                                    "--model_name_or_path",
                                    model().string(),
                                    "--train_file",
                                    path("train.csv").string(),
                                    "--output_dir",
                                    output().string(),
                                    "--max_steps",
                                    "4",
                                    "--logging_steps",
                                    "2",
                                    "--per_device_train_batch_size",
                                    "8"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

ProgramRun CliTest::expect_failure(const std::vector<std::string>& words, int exit_code,
                                   const std::vector<std::string>& parts, const ProgramLimits& limits) const {
  ProgramRun result = run(words, limits);
  EXPECT_EQ(result.exit_code, exit_code) << result.output << result.error;
  EXPECT_EQ(result.error.rfind("error: [", 0), 0U) << result.error;
  for (const std::string& part : parts) EXPECT_TRUE(contains(result.error, part));
  return result;
}

void CliTest::break_a_weight() const {
  const std::filesystem::path file = model() / "model.safetensors";
  std::string bytes = read_text_file(file);
  const int64_t offset =
      SafetensorsFile::open(file).tensor("bert.encoder.layer.1.intermediate.dense.weight").file_offset;
  const float infinity = std::numeric_limits<float>::infinity();
  std::memcpy(bytes.data() + offset, &infinity, sizeof(infinity));
  directory_.write("model/model.safetensors", bytes);
  forget_checksums();
}

void CliTest::forget_checksums() const {
  std::filesystem::remove(model() / "shoehorn_manifest.json");
}

std::vector<std::string> CliTest::written() const {
  std::vector<std::string> names;
  if (!std::filesystem::exists(output())) return names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(output())) {
    if (!entry.is_directory()) names.push_back(std::filesystem::relative(entry.path(), output()).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace shoehorn::test_support
