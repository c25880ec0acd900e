// What the tests of read flags share. Every flag that a command accepts is read by something: another value of it
// changes the command's outcome, or is refused by name. What has no effect says so in its help ("accepted"), or
// stands in a test's Reasons. What the table says a command does not read changes nothing.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "arguments/argument_table.h"
#include "cli_support.h"
#include "io/json_file.h"

namespace shoehorn::test_support {

namespace fs = std::filesystem;
using nlohmann::json;

// Why a flag has no effect in a test, by its name.
using Reasons = std::map<std::string, std::string>;
// The words that a flag has its effect beside, by its name. They are given with and without the flag.
// Of every command that reads texts.
inline const std::pair<const std::string, std::string> kNoCache = {
    "overwrite_cache", "nothing is cached; CliDatasetCache has its tests"};
// Of every command that trains or plans.
inline const std::pair<const std::string, std::string> kNotSplit = {
    "validation_split_percentage", "there is a validation_file; TextTaskTest has none"};
// Of every command that trains or plans, as one rank.
inline const std::pair<const std::string, std::string> kOneBucket = {
    "ddp_bucket_cap_mb", "there is one rank; DataParallel has its tests"};
inline const std::pair<const std::string, std::string> kNothingToShard = {
    "zero_stage", "there is one rank; Zero has its tests"};
inline const std::pair<const std::string, std::string> kNothingToPrefetch = {
    "zero_prefetch_layers", "there is one rank; Zero has its tests"};
inline const std::pair<const std::string, std::string> kNothingToKeepWhole = {
    "zero_persistence_threshold", "there is one rank; Zero has its tests"};
inline const std::pair<const std::string, std::string> kNoGroups = {
    "zero_group_size", "there is one rank; ZeroInGroups has its tests"};
inline const std::pair<const std::string, std::string> kNoOtherHost = {
    "ranks_per_host", "there is one rank; CliTopo and PlannedRunTest have several"};
inline const std::pair<const std::string, std::string> kNoReplicaSpeaks = {
    "log_level_replica", "there is one rank; CliRanks.LogLevelReplicaLetsTheOthersSpeak has more"};
inline const std::pair<const std::string, std::string> kNoReplicas = {
    "parallel_mode", "there is one rank; Replicas has its tests"};
inline const std::pair<const std::string, std::string> kNobodyToAverageWith = {
    "local_sgd_steps", "there is one rank; LocalSgd has its tests"};
inline const std::pair<const std::string, std::string> kNoAverageToReach = {
    "outer_learning_rate", "there is one rank; LocalSgd has its tests"};
inline const std::pair<const std::string, std::string> kNoMomentumOfAverages = {
    "outer_momentum", "there is one rank; LocalSgd has its tests"};
// Of commands on ranks.
inline const std::pair<const std::string, std::string> kNobodyToShareProcessorsWith = {
    "enable_cpu_affinity", "there is one rank; CliRanks has its test"};
inline const std::pair<const std::string, std::string> kNobodyToWaitFor = {
    "ddp_timeout", "there is one rank; CliRanks has its test"};
// Of every command that opens a model.
inline const std::pair<const std::string, std::string> kSameTask = {
    "task", "it is what the model's config names; CliLanguageTest has another"};
using Companions = std::map<std::string, std::vector<std::string>>;

class CliReadFlags : public CliTest {
 protected:
  CliReadFlags() {
    // The longest text is the last one, so that fewer samples are shorter ones.
    directory_.write("labelled.csv", "text,label\nchai trou,LABEL_1\n" +
                                         repeated("prea hust cest,LABEL_0\n", 8) +
                                         "stat glea hust chai trou prea,LABEL_1\n");
    directory_.write("other.csv", "text,label\nhust,LABEL_0\nglea,LABEL_1\n");
    directory_.write("flags.json", R"({"max_seq_length": 3, "optim": "sgd"})");
  }

  void expect_every_flag_is_read(Command command, const std::vector<std::string>& words,
                                 const Reasons& without_effect, const Companions& companions = {}) const {
    const std::string baseline = outcome(words);
    EXPECT_TRUE(baseline.starts_with("exit 0\n")) << baseline.substr(0, kShown);
    EXPECT_EQ(first_difference(baseline, outcome(words)), "") << "so that a flag's effect cannot be told";
    int64_t read = 0;
    for (const ArgumentSpec& spec : argument_table()) {
      if (spec.status != ArgumentStatus::kSupported || !command_reads(command, spec)) continue;
      if (spec.help.starts_with("accepted")) continue;
      const std::string name(spec.name);
      // What it changes is times, and workspaces of some kernels: CliBench.StepSaysItsThreads has its test.
      if (name == "num_threads") continue;
      std::vector<std::string> beside = words;
      const auto companion = companions.find(name);
      if (companion != companions.end())
        beside.insert(beside.end(), companion->second.begin(), companion->second.end());
      const std::string before = companion == companions.end() ? baseline : outcome(beside);
      EXPECT_TRUE(before.starts_with("exit 0\n"))
          << command_name(command) << " beside " << name << before.substr(0, kShown);
      const std::string after = outcome(with_other_value(beside, spec));
      const bool is_read = after != before;
      EXPECT_NE(is_read, without_effect.contains(name))
          << command_name(command) << " --" << name << "=" << other_value(spec);
      if (is_read && contains(after, "\nerror: [")) {
        EXPECT_TRUE(contains(after, name_in_errors(spec)) || contains(after, other_value(spec)))
            << command_name(command) << " refuses --" << name << "=" << other_value(spec) << " as "
            << after.substr(0, kShown);
      }
      read += is_read ? 1 : 0;
    }
    EXPECT_GT(read, 15);
    expect_unread_flags_change_nothing(command, words, baseline);
  }

 private:
  static constexpr size_t kShown = 300;  // of an outcome, which may be long

  static std::string repeated(const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  }

  // A value that differs from the default and from the one in the command lines of the tests.
  std::string other_value(const ArgumentSpec& spec) const {
    static const std::map<std::string_view, std::string> values = {
        {"data_seed", "9"},
        {"dataloader_num_workers", "0"},
        {"do_train", "false"},
        {"dtype", "bfloat16"},
        {"eval_delay", "2"},
        {"eval_strategy", "epoch"},
        {"evaluate_during_training", "false"},
        {"logging_steps", "3"},
        {"loss_scale_window", "1"},
        {"max_grad_norm", "0"},
        {"max_grad_value", "0.001"},
        {"max_seq_length", "4"},
        {"memory_budget", "1MiB"},
        {"max_steps", "2"},
        {"min_loss_scale", "524288"},
        {"mixed_precision", "bf16"},
        {"neftune_noise_alpha", "5"},
        {"num_train_epochs", "0.5"},
        {"optim", "adagrad"},
        {"optim_args", "momentum=0.5"},
        {"report_to", "jsonl"},
        {"problem_type", "multi_label_classification"},
        {"save_steps", "1"},
        {"save_total_limit", "1"},
        {"seed", "7"},
        {"skip_pass", "fuse"},
        {"test_file_format", "tsv"},
        {"torch_compile_backend", "eager"}};
    if (spec.name == "config") return path("flags.json");
    if (spec.name == "model_name_or_path") return path("nowhere");
    if (spec.name.ends_with("_file") && spec.name != "output_file") return path("other.csv");
    if (spec.name == "output_dir" || spec.name == "output_file" || spec.name == "dump_program" ||
        spec.name == "logging_dir" || spec.name == "dataset_cache")
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

  // A task is refused by the column that it names, and what is another name of a flag by that.
  static std::string name_in_errors(const ArgumentSpec& spec) {
    if (spec.name == "task_name") return "text_column_names";
    if (spec.name == "debug") return "detect_anomaly";
    return std::string(spec.name);
  }

  // Empty, or what two outcomes have where they part.
  static std::string first_difference(const std::string& a, const std::string& b) {
    if (a == b) return "";
    constexpr size_t kBefore = 100;
    const auto at =
        static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
    const size_t from = at < kBefore ? 0 : at - kBefore;
    return a.substr(from, kShown) + "\nbecomes\n" + b.substr(from, kShown);
  }

  std::vector<std::string> with_other_value(std::vector<std::string> words, const ArgumentSpec& spec) const {
    words.push_back(fmt::format("--{}={}", spec.name, other_value(spec)));
    return words;
  }

  void expect_unread_flags_change_nothing(Command command, const std::vector<std::string>& words,
                                          const std::string& baseline) const {
    std::vector<const ArgumentSpec*> unread;
    for (const ArgumentSpec& spec : argument_table()) {
      const bool is_said = spec.status == ArgumentStatus::kSupported && command_takes(command, spec) &&
                           !command_reads(command, spec);
      if (is_said && spec.rewrite == nullptr) unread.push_back(&spec);
    }
    expect_change_nothing(command, words, unread, baseline);
  }

  // Together; where they are not accepted together, in halves, and in the end each for itself. Some are checked all the same,
  // alone or beside others.
  void expect_change_nothing(Command command, const std::vector<std::string>& words,
                             std::span<const ArgumentSpec* const> flags, const std::string& baseline) const {
    if (flags.empty()) return;
    std::vector<std::string> all = words;
    for (const ArgumentSpec* spec : flags) all = with_other_value(all, *spec);
    const std::string text = outcome(all);
    if (text == baseline) return;
    if (flags.size() == 1) {
      if (text.starts_with("exit 0\n")) {
        EXPECT_EQ(first_difference(baseline, text), "")
            << command_name(command) << " --" << flags[0]->name << "=" << other_value(*flags[0]);
      }
      return;
    }
    const size_t half = flags.size() / 2;
    expect_change_nothing(command, words, flags.first(half), baseline);
    expect_change_nothing(command, words, flags.subspan(half), baseline);
  }

  // All that a run gives but times and what it measured of this process. The places that it writes to are
  // made anew.
  std::string outcome(const std::vector<std::string>& words) const {
    const std::vector<std::string> places = {"out", "elsewhere", "dump"};
    for (const std::string& place : places) fs::remove_all(path(place));
    const ProgramRun result = run(words);
    std::string text =
        fmt::format("exit {}\n{}\n", result.exit_code, result.exit_code == 0 ? "" : result.error);
    for (const std::string& place : places) {
      if (fs::is_regular_file(path(place))) text += fmt::format("{}\n{}", place, read_text_file(path(place)));
      if (!fs::is_directory(path(place))) continue;
      std::map<std::string, std::string> files;
      for (const auto& entry : fs::recursive_directory_iterator(path(place))) {
        if (!entry.is_regular_file()) continue;
        const fs::path file = entry.path().lexically_relative(directory_.path());
        files[is_event_file(file) ? without_digits(file) : file.string()] = content_of(entry.path());
      }
      for (const auto& [name, content] : files) text += name + "\n" + content;
    }
    const json object = json::parse(result.output, nullptr, false);
    return text + (object.is_object() ? without_measured(object).dump() : "no object");
  }

  // Of files with times in them there is the name, and of a page its title.
  static std::string content_of(const fs::path& file) {
    const std::string name = file.filename();
    // These two hold every argument, whether it is read or not.
    const bool lists_arguments = name == "training_args.json" || name == "shoehorn_manifest.json";
    if (lists_arguments || name == "profile.json" || name == "log.jsonl" || is_event_file(file)) return "";
    if (file.extension() == ".json") return without_measured(read_json(file)).dump();
    const std::string text = read_text_file(file);
    if (file.extension() != ".html") return text;
    const size_t begin = text.find("<title>");
    return text.substr(begin, text.find("</title>") - begin);
  }

  // TensorBoard's: a time and a process id are in the name.
  static bool is_event_file(const fs::path& file) { return contains(file.filename().string(), "tfevents"); }

  static std::string without_digits(const std::string& text) {
    std::string kept;
    for (const char c : text) {
      if (c < '0' || c > '9') kept += c;
    }
    return kept;
  }

  // Whether no two runs have it alike: times, what is measured of the process and of the machine, and forecasts that
  // start from it. `flags` are the words of the command line again.
  static bool is_of_the_run(const std::string& key) {
    static const std::set<std::string> keys = {
        "budget_bytes",        "flags",           "load",           "planned_bytes",
        "planning_peak_bytes", "predicted_bytes", "step_interval",  "step_samples",
        "thread_waits",        "total_bytes",     "training_bytes", "unexplained_bytes",
        "with_weights_bytes"};
    return key.ends_with("_runtime") || key.ends_with("_per_second") || key.ends_with("seconds") ||
           key.ends_with("_wait_share") || contains(key, "process_") || contains(key, "_measured_") ||
           keys.contains(key);
  }

  static json without_measured(const json& value) {
    if (value.is_array()) {
      json kept = json::array();
      for (const json& item : value) {
        const bool is_process = item.is_object() && item.value("name", "") == "the process besides";
        if (!is_process) kept.push_back(without_measured(item));
      }
      return kept;
    }
    if (!value.is_object()) return value;
    json kept = json::object();
    for (const auto& [key, item] : value.items()) {
      if (!is_of_the_run(key)) kept[key] = without_measured(item);
    }
    return kept;
  }
};

}  // namespace shoehorn::test_support
