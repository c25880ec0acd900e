// What the program says of a language model's evaluation, beside run_clm's (tests/golden/clm_evaluation_make.py).
#include <nlohmann/json.hpp>

#include "cli_support.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace test_support;
using nlohmann::json;

using ClmEvaluation = CliTest;

TEST_F(ClmEvaluation, LossesAndAccuracyAreRunClms) {
  const json expected = read_json(golden("clm_evaluation/golden.json"));
  ASSERT_EQ(expected["cases"].size(), 4U);
  for (const json& row : expected["cases"]) {
    const auto text = [&](const char* key) {
      return row[key].is_string() ? row[key].get<std::string>() : row[key].dump();
    };
    SCOPED_TRACE(row.dump());
    const int64_t blocks = row["blocks"];
    ASSERT_NE(blocks % row["per_device_eval_batch_size"].get<int64_t>(), 0) << "the last batch is smaller";
    const ProgramRun run = this->run(
        {"eval", "--model_name_or_path", golden("clm_evaluation").string(), "--tokenizer_name",
         golden("language_small").string(), "--validation_file",
         (golden("language_small") / expected["file"].get<std::string>()).string(), "--block_size",
         text("block_size"), "--block_remainder", text("block_remainder"), "--per_device_eval_batch_size",
         text("per_device_eval_batch_size"), "--json", "--output_dir", output().string()});
    ASSERT_EQ(run.exit_code, 0) << run.error;
    const json ours = json::parse(run.output);
    // Sums of up to 3,300 losses in fp32, of logits that are sums themselves: 64 half steps of a number around 1.
    constexpr double kTolerance = 64 * 0x1p-24;
    EXPECT_NEAR(ours["eval_loss"].get<double>(), row["eval_loss"].get<double>(), kTolerance);
    EXPECT_NEAR(ours["eval_token_loss"].get<double>(), row["token_loss"].get<double>(), kTolerance);
    const double perplexity = row["eval_perplexity"];
    EXPECT_NEAR(ours["eval_perplexity"].get<double>(), perplexity, kTolerance * perplexity);
    EXPECT_NEAR(ours["eval_token_perplexity"].get<double>(), std::exp(row["token_loss"].get<double>()),
                kTolerance * perplexity);
    // Of two logits that are all but equal either may be the largest: of one token.
    EXPECT_NEAR(ours["eval_accuracy"].get<double>(), row["eval_accuracy"].get<double>(),
                1.001 / row["tokens"].get<double>());
  }
}

// Where batches have other numbers of tokens the two means are two numbers.
TEST_F(ClmEvaluation, TheTwoMeansDiffer) {
  const json cases = read_json(golden("clm_evaluation/golden.json"))["cases"];
  int different = 0;
  for (const json& row : cases)
    different += std::abs(row["eval_loss"].get<double>() - row["token_loss"].get<double>()) > 3e-6 ? 1 : 0;
  EXPECT_GE(different, 2) << "else no case tells one mean from the other";
}

}  // namespace
}  // namespace shoehorn
