// Every flag that eval, predict or plan accepts is read by something: another value of it changes what the
// command gives, or is refused by name. What has no effect says so in its help ("accepted"), or is listed here
// with its reason.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli_support.h"
#include "io/json_file.h"
#include "train/argument_table.h"

namespace shoehorn {
namespace {

using namespace shoehorn::testing;
using nlohmann::json;
namespace fs = std::filesystem;

using Reasons = std::map<std::string, std::string>;

class CliReadFlags : public CliTest {
 protected:
  CliReadFlags() {
    // The longest text is the last one, so that fewer samples are shorter ones.
    directory_.write("labelled.csv", "text,label\nchai trou,LABEL_1\n" +
                                         repeated("prea hust cest,LABEL_0\n", 8) +
                                         "stat glea hust chai trou prea,LABEL_1\n");
    directory_.write("other.csv", "text,label\nhust,LABEL_0\n");
    directory_.write("flags.json", R"({"max_seq_length": 3})");
  }

  static std::string repeated(const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  }

  // A value that differs from the default and from the one in the command lines below.
  std::string other_value(const ArgumentSpec& spec) const {
    static const std::map<std::string_view, std::string> values = {{"dataloader_num_workers", "0"},
                                                                   {"do_train", "false"},
                                                                   {"eval_delay", "2"},
                                                                   {"eval_strategy", "epoch"},
                                                                   {"evaluate_during_training", "false"},
                                                                   {"logging_steps", "2"},
                                                                   {"max_grad_norm", "0"},
                                                                   {"max_grad_value", "0.001"},
                                                                   {"max_seq_length", "4"},
                                                                   {"memory_budget", "1MiB"},
                                                                   {"mixed_precision", "bf16"},
                                                                   {"optim", "adagrad"},
                                                                   {"optim_args", "momentum=0.5"},
                                                                   {"report_to", "jsonl"},
                                                                   {"save_steps", "2"},
                                                                   {"save_total_limit", "1"},
                                                                   {"seed", "7"},
                                                                   {"skip_pass", "fuse"},
                                                                   {"torch_compile_backend", "eager"}};
    if (spec.name == "config") return path("flags.json");
    if (spec.name == "model_name_or_path") return path("nowhere");
    if (spec.name.ends_with("_file") && spec.name != "output_file") return path("other.csv");
    if (spec.name == "output_dir" || spec.name == "output_file" || spec.name == "dump_program")
      return path("elsewhere");
    if (const auto found = values.find(spec.name); found != values.end()) return found->second;
    for (const ArgumentChoice& choice : spec.choices) {
      if (choice.why.empty() && ArgumentValue(std::string(choice.value)) != spec.standard)
        return std::string(choice.value);
    }
    switch (spec.kind) {
      case ArgumentKind::kFlag:
        return spec.standard == ArgumentValue(true) || spec.name == "do_eval" || spec.name == "json" ? "false"
                                                                                                     : "true";
      case ArgumentKind::kInteger:
        return "3";
      case ArgumentKind::kNumber:
        return "0.75";
      case ArgumentKind::kKwargs:
        return "some=1";
      default:
        return "something";
    }
  }

  // All that a run gives but times and what it measured of this process; `prepare` makes the place for it anew.
  std::string outcome(const std::vector<std::string>& words) const {
    for (const char* name : {"out", "elsewhere", "dump"}) fs::remove_all(path(name));
    const ProgramRun result = run(words);
    std::string text =
        fmt::format("exit {}\n{}\n", result.exit_code, result.exit_code == 0 ? "" : result.error);
    for (const char* name : {"out", "elsewhere", "dump"}) {
      if (!fs::exists(path(name))) continue;
      if (fs::is_regular_file(path(name))) text += fmt::format("{}\n{}", name, read_text_file(path(name)));
      if (!fs::is_directory(path(name))) continue;
      std::map<std::string, std::string> files;
      for (const auto& entry : fs::recursive_directory_iterator(path(name))) {
        const std::string file = fs::relative(entry.path(), directory_.path()).string();
        // These two hold every argument, whether it is read or not.
        const std::string name = entry.path().filename();
        if (!entry.is_regular_file() || name == "training_args.json" || name == "shoehorn_manifest.json")
          continue;
        files[file] = entry.path().extension() == ".json" ? without_times(read_json(entry.path())).dump()
                                                          : read_text_file(entry.path());
      }
      for (const auto& [file, content] : files) text += file + "\n" + content;
    }
    const json object = json::parse(result.output, nullptr, false);
    return text + (object.is_object() ? without_times(object).dump() : "no object");
  }

  // Without what no two runs have alike: times, and what is measured of the process.
  static json without_times(const json& value) {
    if (value.is_array()) {
      json kept = json::array();
      for (const json& item : value) kept.push_back(without_times(item));
      return kept;
    }
    if (!value.is_object()) return value;
    json kept = json::object();
    for (const auto& [key, item] : value.items()) {
      const bool is_time = key.ends_with("_runtime") || key.ends_with("_per_second") ||
                           key.ends_with("_seconds") || key.ends_with("_wait_share");
      const bool is_process = key == "budget_bytes" || key == "planning_peak_bytes" ||
                              contains(key, "process_") || contains(key, "_measured_");
      if (!is_time && !is_process) kept[key] = without_times(item);
    }
    return kept;
  }

  void expect_every_flag_is_read(Command command, const std::vector<std::string>& words,
                                 const Reasons& without_effect) const {
    const std::string baseline = outcome(words);
    EXPECT_EQ(baseline, outcome(words)) << "two runs differ, so that a flag's effect cannot be told";
    int64_t read = 0;
    for (const ArgumentSpec& spec : argument_table()) {
      if (spec.status != ArgumentStatus::kSupported || !command_reads(command, spec)) continue;
      if (spec.help.starts_with("accepted")) continue;
      std::vector<std::string> changed = words;
      changed.push_back(fmt::format("--{}={}", spec.name, other_value(spec)));
      const bool is_read = outcome(changed) != baseline;
      EXPECT_NE(is_read, without_effect.contains(std::string(spec.name)))
          << command_name(command) << " " << changed.back();
      read += is_read ? 1 : 0;
    }
    EXPECT_GT(read, 15);
    // And what is said to have none has none.
    for (const ArgumentSpec& spec : argument_table()) {
      const bool is_said = spec.status == ArgumentStatus::kSupported && command_takes(command, spec) &&
                           !command_reads(command, spec);
      if (!is_said || spec.rewrite != nullptr) continue;
      std::vector<std::string> changed = words;
      changed.push_back(fmt::format("--{}={}", spec.name, other_value(spec)));
      const std::string text = outcome(changed);
      // Some are checked all the same, alone or beside others.
      if (text.starts_with("exit 0\n")) {
        EXPECT_EQ(text, baseline) << command_name(command) << " " << changed.back();
      }
    }
  }
};

TEST_F(CliReadFlags, Eval) {
  expect_every_flag_is_read(
      Command::kEval,
      {"eval", "--model_name_or_path", model(), "--validation_file", path("labelled.csv"), "--output_dir",
       output(), "--dump_program", path("dump"), "--json"},
      {{"detect_anomaly", "there is no anomaly; CliFlags.AnomalyOfAnEvaluationIsNamed has one"},
       {"debug", "another name of detect_anomaly"},
       {"log_level", "there is no notice; CliFlags.NoticesAreHiddenByLogLevel has one"}});
}

TEST_F(CliReadFlags, Predict) {
  expect_every_flag_is_read(
      Command::kPredict,
      {"predict", "--model_name_or_path", model(), "--test_file", path("labelled.csv"), "--output_dir",
       output(), "--dump_program", path("dump"), "--json"},
      {{"detect_anomaly", "there is no anomaly; CliFlags.AnomalyOfAnEvaluationIsNamed has one"},
       {"debug", "another name of detect_anomaly"},
       {"log_level", "there is no notice; CliFlags.NoticesAreHiddenByLogLevel has one"}});
}

TEST_F(CliReadFlags, Plan) {
  expect_every_flag_is_read(
      Command::kPlan,
      {"plan", "--model_name_or_path", model(), "--train_file", path("labelled.csv"), "--validation_file",
       path("labelled.csv"), "--per_device_train_batch_size=2", "--gradient_accumulation_steps=2",
       "--dump_program", path("dump"), "--json", "--dataloader_num_workers=1"},
      {{"auto_find_batch_size", "the batch fits; AutoFindBatchSize has its tests"},
       {"profile", "its bytes are among those that are measured of the process"}});
}

}  // namespace
}  // namespace shoehorn
