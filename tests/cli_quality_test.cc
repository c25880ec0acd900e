// bench quality as a program: the small task, a task of the user's, and mistakes.
#include <map>
#include <nlohmann/json.hpp>

#include "cli_support.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
using nlohmann::json;

class CliQuality : public CliTest {};

TEST_F(CliQuality, QuickTask) {
  const ProgramRun result = run({"bench", "quality", "--quick", "--rungs",
                                 "checkpointing,accumulation,layer_major,update_in_backward,exact,bf16,"
                                 "bf16_no_master,bf16_8bit_no_master,8bit_embeddings,sgd,lomo,"
                                 "adalomo,exact_bf16_8bit_embeddings_no_master",
                                 "--json_file", path("quality.json"), "--report", path("quality.html")});
  ASSERT_EQ(result.exit_code, 0) << result.output << result.error;
  EXPECT_EQ(result.error, "");
  const json quality = read_json(path("quality.json"));
  EXPECT_EQ(quality["seeds"], 2);
  std::map<std::string, json> rungs;
  for (const json& rung : quality["rungs"]) {
    rungs[rung["name"]] = rung;
    EXPECT_TRUE(contains(result.output, rung["setting"].get<std::string>()));
    for (const json& run : rung["runs"]) {
      ASSERT_EQ(run["outcome"], "measured") << rung["name"] << run;
      EXPECT_GT(run["step_losses"].size(), 20U) << "a loss a step";
      if (measures_memory()) {
        EXPECT_NEAR(run["memory_process_predicted_bytes"].get<double>() / (1 << 20),
                    run["memory_process_measured_bytes"].get<double>() / (1 << 20), 8.0)
            << rung["name"];
      }
    }
  }
  ASSERT_EQ(rungs.size(), 15U) << "with the reference and what update_in_backward equals";
  EXPECT_EQ(quality["rungs"][0]["runs"].size(), 2U);
  EXPECT_GT(rungs["reference"]["eval_accuracy"]["mean"].get<double>(), 0.6) << "a quarter is chance";
  for (const char* name : {"checkpointing", "update_in_backward"})
    EXPECT_EQ(rungs[name]["equals"]["is_every_bit"], true) << name;
  for (const char* name : {"accumulation", "layer_major", "exact"}) {
    EXPECT_EQ(rungs[name]["equals"]["is_kept"], true) << name << rungs[name]["equals"];
    EXPECT_EQ(rungs[name]["equals"]["promise"], "rounding") << name;
  }
  EXPECT_NE(rungs["bf16"]["runs"][0]["eval_loss"], rungs["reference"]["runs"][0]["eval_loss"]);
  EXPECT_NE(rungs["bf16_no_master"]["runs"][0]["eval_loss"], rungs["bf16"]["runs"][0]["eval_loss"]);
  // SGD diverges at this learning rate: it is told from the reference, and losing is no failure of the
  // command.
  EXPECT_EQ(rungs["sgd"]["verdict"], "loses accuracy");
  EXPECT_EQ(rungs["reference"]["verdict"], "");
  EXPECT_TRUE(contains(read_text_file(path("quality.html")), "accuracy over memory"));
}

// The same for a model and files of the user's; what is shown can be typed.
TEST_F(CliQuality, TheUsersTask) {
  const std::vector<std::string> words = {"bench",
                                          "quality",
                                          "--model_name_or_path",
                                          model(),
                                          "--train_file",
                                          path("train.csv"),
                                          "--validation_file",
                                          path("validation.csv"),
                                          "--learning_rate",
                                          "5e-3",
                                          "--num_train_epochs",
                                          "8",
                                          "--seeds",
                                          "2",
                                          "--rung_seeds",
                                          "1",
                                          "--rungs",
                                          "sgd,fp16",
                                          "--json"};
  const ProgramRun result = run(words);
  ASSERT_EQ(result.exit_code, 0) << result.output << result.error;
  const json quality = parse_json(result.output, "output");
  ASSERT_EQ(quality["rungs"].size(), 3U);
  for (const json& rung : quality["rungs"]) EXPECT_EQ(rung["runs"][0]["outcome"], "measured") << rung["name"];
  std::vector<std::string> train = {"train"};
  for (const json& flag : quality["flags"]) train.push_back(flag);
  for (const json& flag : quality["rungs"][2]["flags"]) train.push_back(flag);
  train.insert(train.end(), {"--max_steps", "1", "--output_dir", output()});
  EXPECT_EQ(run(train).exit_code, 0);
}

TEST_F(CliQuality, Mistakes) {
  const std::vector<std::string> task = {"bench", "quality",      "--model_name_or_path",
                                         model(), "--train_file", path("train.csv")};
  const auto with = [&task](std::vector<std::string> more) {
    std::vector<std::string> words = task;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  expect_failure(with({}), 2, {"[--validation_file]", "accuracy is measured on it"});
  const auto complete = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--validation_file", path("validation.csv")});
    return with(more);
  };
  expect_failure(complete({"--bf16"}), 2, {"[--bf16]", "the settings that are compared give it"});
  expect_failure(complete({"--mixed_precision", "fp16"}), 2, {"[--fp16]"});
  expect_failure(complete({"--seed", "1"}), 2, {"[--seed]", "bench quality sets it"});
  expect_failure(complete({"--prediction_loss_only"}), 2,
                 {"[--prediction_loss_only]", "accuracy is compared"});
  expect_failure(complete({"--output_dir", "x"}), 2, {"[--output_dir]"});
  expect_failure(complete({"--seeds", "1"}), 2, {"[--seeds]", "2 or more"});
  expect_failure(complete({"--rung_seeds", "0"}), 2, {"[--rung_seeds]"});
  expect_failure(complete({"--rungs", "bf17"}), 2, {"[--rungs]", "did you mean bf16?"});
  expect_failure(complete({"--per_device_train_batch_size", "6"}), 2,
                 {"[--per_device_train_batch_size]", "a multiple of 4"});
  expect_failure(complete({"--lerning_rate", "1"}), 2, {"did you mean --learning_rate?"});
  expect_failure({"bench", "quality", "--quick", "--train_file", path("train.csv")}, 2,
                 {"[--train_file]", "brings its own task"});
  expect_failure({"bench", "quality", "--quick", "--json_file", "/proc/none/x.json"}, 2, {"/proc/none"});
  const ProgramRun none = run(complete({"--rungs", "reference", "--memory_budget", "1MiB"}));
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_TRUE(contains(none.output, "does not fit"));
  EXPECT_TRUE(contains(none.output, "[memory]"));
}

}  // namespace
}  // namespace shoehorn
