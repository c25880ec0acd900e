// What a refusal offers is true: each line of flags, added to the command that was refused, makes a plan that
// fits.
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "cli_support.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
using nlohmann::json;

// The flags of the lines "   2.53 GiB    -1%  --optim adafactor", without a shell's quotes.
std::vector<std::string> offered(const std::string& error) {
  const std::regex line(R"(\n +[0-9.]+ [KMG]iB +(?:[-+]\d+%)?  (--[^\n]+))");
  std::vector<std::string> flags;
  for (auto at = std::sregex_iterator(error.begin(), error.end(), line); at != std::sregex_iterator(); ++at)
    flags.push_back(std::regex_replace((*at)[1].str(), std::regex("'"), ""));
  return flags;
}

class CliRefusal : public CliTest {
 protected:
  // The refusal of the plan; every offer in it is planned and fits.
  std::vector<std::string> offers_that_fit(const std::vector<std::string>& words, int64_t budget) const {
    const ProgramRun refused = run(words);
    EXPECT_EQ(refused.exit_code, 2) << refused.error;
    const std::vector<std::string> offers = offered(refused.error);
    EXPECT_FALSE(offers.empty()) << refused.error;
    for (const std::string& offer : offers) {
      std::vector<std::string> changed = words;
      std::istringstream flags(offer);
      for (std::string flag; flags >> flag;) changed.push_back(flag);
      changed.emplace_back("--json");
      const ProgramRun planned = run(changed);
      EXPECT_EQ(planned.exit_code, 0) << offer << "\n" << planned.error;
      if (planned.exit_code != 0) continue;
      const json plan = parse_json(planned.output, "output");
      EXPECT_TRUE(plan["fits"].get<bool>()) << offer;
      EXPECT_LE(plan["process_peak_bytes"].get<int64_t>(), budget) << offer;
    }
    return offers;
  }
};

bool has(const std::vector<std::string>& offers, const std::string& flags) {
  return std::find(offers.begin(), offers.end(), flags) != offers.end();
}

TEST_F(CliRefusal, OffersOfALargeModelFit) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  const auto offers = [&](const char* gibibytes, int64_t bytes) {
    return offers_that_fit({"plan", "--model_name_or_path", "bert-large", "--memory_budget", gibibytes},
                           bytes);
  };
  const std::vector<std::string> three = offers("3GiB", int64_t{3} << 30);
  for (const char* flags :
       {"--optim adafactor", "--bf16 --master_weights none --optim adamw_8bit", "--lora_rank 8"})
    EXPECT_TRUE(has(three, flags)) << flags;
  const std::vector<std::string> less = offers("1280MiB", int64_t{1280} << 20);
  EXPECT_TRUE(
      has(less, "--bf16 --master_weights none --optim adafactor --update_in_backward --max_grad_norm 0"));
}

// A refusal is the search of fit with every change open: where one has something, so has the other.
TEST_F(CliRefusal, FitFindsSomethingWhereverARefusalOffersSomething) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  const auto with = [](const std::string& command, const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        command, "--model_name_or_path",          "bert-mini", "--max_seq_length",
        "128",   "--per_device_train_batch_size", "32",        "--memory_budget",
        "160MiB"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const ProgramRun refused = run(with("plan", {}));
  ASSERT_EQ(refused.exit_code, 2);
  EXPECT_FALSE(offered(refused.error).empty()) << refused.error;
  const ProgramRun found = run(with("fit", {"--allow", "numerics,adapters", "--effective_batch_size", "32"}));
  EXPECT_EQ(found.exit_code, 0) << found.error;
}

// Weights, states and gradients of one parameter are more than this: nothing can fit, and the refusal says
// what was tried.
TEST_F(CliRefusal, NothingFits) {
  const ProgramRun refused =
      expect_failure({"bench", "step", "--model", "bert-large", "--memory_budget", "400MiB"}, 2,
                     {"(--memory_budget)", "Nothing that was tried fits", "--optim adafactor",
                      "--optim adamw_8bit", "--bf16 --master_weights none", "--lora_rank 8",
                      "--update_in_backward --max_grad_norm 0", "The least was"});
  EXPECT_TRUE(offered(refused.error).empty());
}

TEST_F(CliRefusal, OffersOfLargeBatchesFit) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  directory_.write("train.csv", labelled_csv(5120, 4));
  std::vector<std::string> words = train_words({"--per_device_train_batch_size", "5120", "--optim", "sgd",
                                                "--optim_args", "momentum=0.9", "--max_grad_norm", "0"});
  words[0] = "plan";
  words.emplace_back("--json");
  const json plan = parse_json(run(words).output, "output");
  words.pop_back();
  const int64_t budget =
      plan["process_overhead_bytes"].get<int64_t>() + plan["arena_bytes"].get<int64_t>() * 2 / 5;
  words.insert(words.end(), {"--memory_budget", std::to_string(budget)});
  const std::vector<std::string> offers = offers_that_fit(words, budget);
  EXPECT_TRUE(std::any_of(offers.begin(), offers.end(), [](const std::string& flags) {
    return flags.starts_with("--optim adafactor --optim_args {} ");
  }));
}

}  // namespace
}  // namespace shoehorn
