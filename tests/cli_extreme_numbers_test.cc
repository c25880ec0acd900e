// Every numeric flag at its extremes: a result, or one message that names what is wrong; no text of the C++
// library, no overflow (the sanitizers' build runs this too), and no more memory than a small plan takes.
#include <map>
#include <nlohmann/json.hpp>

#include "arguments/argument_table.h"
#include "cli_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

const std::vector<std::string> kIntegers = {
    "0",     "-1", "2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "1e300", "nan"};
const std::vector<std::string> kNumbers = {"0",     "-1",    "1e-320", "2147483648", "9223372036854775807",
                                           "1e300", "1e999", "nan",    "inf",        "-inf"};

class ExtremeNumbers : public CliTest {
 protected:
  // What a flag needs beside it to be looked at.
  std::vector<std::string> companions_of(const std::string& flag) const {
    const std::vector<std::string> evaluates = {"--validation_file", path("validation.csv"), "--train_file",
                                                path("train.csv"),   "--eval_strategy",      "steps"};
    static const std::map<std::string, std::vector<std::string>> kCompanions = {
        {"dataloader_prefetch_factor", {"--dataloader_num_workers", "1"}},
        {"loss_scale", {"--fp16"}},
        {"initial_scale_power", {"--fp16"}},
        {"loss_scale_window", {"--fp16"}},
        {"hysteresis", {"--fp16"}},
        {"min_loss_scale", {"--fp16"}},
        {"lora_alpha", {"--lora_rank", "2"}},
        {"lora_dropout", {"--lora_rank", "2"}},
        {"reference_batch_size", {"--scale_learning_rate", "linear"}},
    };
    if (flag.starts_with("eval_") || flag.find("eval_batch") != std::string::npos) return evaluates;
    const auto found = kCompanions.find(flag);
    return found == kCompanions.end() ? std::vector<std::string>() : found->second;
  }

  void expect_result_or_message(const std::vector<std::string>& words, const std::string& flag) const {
    const ProgramRun result = run(words);
    const std::string command = fmt::format("{}", fmt::join(words, " "));
    EXPECT_TRUE(result.exit_code == 0 || result.exit_code == 2) << command << "\n" << result.error;
    for (const char* internal : {"std::", "vector", "basic_string", "bad_alloc", "json.exception", "src/"})
      EXPECT_EQ(result.error.find(internal), std::string::npos) << command << "\n" << result.error;
    if (result.exit_code == 2) {
      EXPECT_EQ(result.error.find("error: ["), 0U) << command << "\n" << result.error;
      const bool says_why = result.error.find(flag) != std::string::npos ||
                            result.error.find("error: [memory]") != std::string::npos;
      EXPECT_TRUE(says_why) << command << "\n" << result.error;
    }
    expect_peak_below(result, int64_t{300} << 20, command);
  }

  void expect_sense(Command command, const std::vector<std::string>& words) const {
    int64_t rows = 0;
    for (const ArgumentSpec& spec : argument_table()) {
      const bool is_integer = spec.kind == ArgumentKind::kInteger || spec.kind == ArgumentKind::kBytes;
      if (!is_integer && spec.kind != ArgumentKind::kNumber) continue;
      if (spec.status != ArgumentStatus::kSupported || !command_takes(command, spec)) continue;
      ++rows;
      const std::string flag(spec.name);
      for (const std::string& value : is_integer ? kIntegers : kNumbers) {
        std::vector<std::string> all = words;
        if (command == Command::kPlan)
          for (const std::string& word : companions_of(flag)) all.push_back(word);
        all.push_back(fmt::format("--{}={}", flag, value));
        expect_result_or_message(all, flag);
      }
    }
    EXPECT_GT(rows, 0);
  }
};

TEST_F(ExtremeNumbers, OfAPlan) {
  expect_sense(Command::kPlan, {"plan", "--model", model(), "--memory_budget", "1GiB"});
}

TEST_F(ExtremeNumbers, OfAnEvaluation) {
  directory_.write("labelled.csv", "text,label\nstat glea,1\nchai,0\n");
  expect_sense(Command::kEval, {"eval", "--model", model(), "--validation_file", path("labelled.csv"),
                                "--output_dir", output(), "--memory_budget", "1GiB"});
}

TEST_F(ExtremeNumbers, OfMeasurements) {
  const std::vector<std::string> huge = {"9223372036854775807", "9000000000000000000", "2147483648", "0",
                                         "-1"};
  for (const std::string& value : huge) {
    for (const char* flag : {"max_steps", "sequence_length", "per_device_train_batch_size",
                             "gradient_accumulation_steps", "profile"}) {
      // Where --max_steps is left out a few steps are run.
      if (std::string(flag) == "max_steps" && value == "-1") continue;
      expect_result_or_message({"bench", "step", "--model", model(), "--sequence_length", "8", "--no_limits",
                                "--memory_budget", "200MiB", fmt::format("--{}={}", flag, value)},
                               std::string(flag) == "sequence_length" ? "_length" : flag);
    }
    expect_result_or_message({"anatomy", "--model", model(), "--sequence_length", "8", "--steps", value},
                             "--steps");
  }
}

}  // namespace
}  // namespace shoehorn
