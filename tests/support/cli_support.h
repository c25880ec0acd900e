// What the tests of the program share: running it, and a small model directory with texts to train on.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "arguments/flag_words.h"
#include "base/error_testing.h"
#include "base/sanitizer_testing.h"
#include "io/file.h"
#include "io/test_directory.h"

namespace shoehorn::test_support {

inline constexpr int64_t kMebibyte = int64_t{1} << 20;

struct ProgramRun {
  int exit_code = -1;  // -1: ended by a signal
  std::string output;
  std::string error;
  int64_t peak_bytes = 0;  // VmHWM as last seen, a millisecond or so before the end
};

struct ProgramLimits {
  int64_t file_bytes = 0;             // above 0: a write beyond this fails, as on a full disk
  int64_t address_space_bytes = 0;    // above 0: RLIMIT_AS
  std::filesystem::path cgroup = {};  // the folder of the cgroup to run in
  int ignored_signal = 0;             // above 0: ignored from the start, as nohup does
};

// The text without the lines that say how busy the machine is (train/load_notice.h, base/other_load.h): they come or not,
// and with other numbers, whatever is tested.
std::string without_load_notice(const std::string& text);

// For a child of the tests before it becomes a program. Programs take signals, whatever the tests were started under: nohup
// and a shell's background ignore some.
void take_signals();

// A started program, its output in files. Kill or wait for it before it goes out of scope.
class StartedProgram {
 public:
  StartedProgram(const std::vector<std::string>& words, const std::filesystem::path& scratch,
                 const ProgramLimits& limits = {}, const std::string& program = SHOEHORN_PROGRAM);

  pid_t pid() const { return pid_; }
  std::string output() const { return read_text_file(output_); }

  ProgramRun wait();

 private:
  std::filesystem::path output_;
  std::filesystem::path error_;
  pid_t pid_ = -1;
};

struct LabelNames {
  std::string up = "up";
  std::string down = "down";
};
// Texts of known words; the word "glea" makes one "up", else it is "down".
std::string labelled_csv(int64_t rows, uint32_t seed, const LabelNames& labels = {});
// Many rows, a thousand of labelled_csv() again and again.
std::string long_labelled_csv(int64_t thousands, uint32_t seed, const LabelNames& labels = {});

class CliTest : public testing::Test {
 protected:
  CliTest();  // the user's cache is the test's own
  ~CliTest() override;

  void TearDown() override;

  // Whether processes take what is planned. Not under a sanitizer: the test then ends as skipped.
  bool measures_memory() const {
    lacks_memory_ |= kIsSanitized;
    return !kIsSanitized;
  }

  void expect_peak_below(const ProgramRun& run, int64_t bytes, const std::string& what = "") const;

  std::filesystem::path path(const std::string& name) const { return directory_.path() / name; }
  std::filesystem::path model() const { return path("model"); }
  std::filesystem::path output() const { return path("out"); }

  ProgramRun run(const std::vector<std::string>& words, const ProgramLimits& limits = {}) const;

  // The words of a short training run; later flags override these.
  std::vector<std::string> train_words(const std::vector<std::string>& more = {}) const;

  // Fails the test unless the program ends with `exit_code` and says each of `parts`; an error is one
  // message.
  ProgramRun expect_failure(const std::vector<std::string>& words, int exit_code,
                            const std::vector<std::string>& parts, const ProgramLimits& limits = {}) const;

  // Makes the first number of a feed-forward weight of the model infinite.
  void break_a_weight() const;

  // Whoever edits a saved model takes its manifest away.
  void forget_checksums() const;

  // All files below output(), for "nothing half-written".
  std::vector<std::string> written() const;

  const TestDirectory directory_;

 private:
  mutable bool lacks_memory_ = false;  // something of it was to be checked, and was not
};

}  // namespace shoehorn::test_support
