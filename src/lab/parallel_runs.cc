#include "lab/parallel_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "arguments/flag_words.h"
#include "base/child_process.h"
#include "base/error.h"
#include "base/format.h"
#include "base/median.h"
#include "base/plural.h"
#include "exec/backends.h"
#include "lab/machine_text.h"
#include "lab/run_results.h"
#include "lab/text_table.h"
#include "train/results.h"

namespace shoehorn {

namespace {

constexpr const char* kOneProcess = "one process";
constexpr int64_t kProfiledSteps = 8;  // behind the first, at most

std::optional<double> number_if_any(const RunResults& results, const char* name) {
  return results.has(name) ? std::optional(results.number(name)) : std::nullopt;
}

ParallelRun read_run(const FinishedProcess& finished, const std::filesystem::path& directory) {
  ParallelRun run;
  if (finished.exit_code != 0) {
    const RunFailure failure = failure_of(finished);
    run.outcome = failure.outcome;
    run.reason = failure.reason;
    return run;
  }
  try {
    const RunResults results(directory);
    run.samples_per_second = results.number("train_samples_per_second");
    run.train_seconds = results.number("train_runtime");
    run.train_loss = results.number("train_loss");
    run.process_bytes = results.bytes("memory_process_measured_bytes");
    if (results.has(kSentBytesMetric)) run.sent_bytes = results.bytes(kSentBytesMetric);
    run.step_seconds = number_if_any(results, kProfiledStepMetric);
    run.done_share = number_if_any(results, kDoneShareMetric);
    run.early_share = number_if_any(results, kEarlyShareMetric);
    run.hidden_share = number_if_any(results, kHiddenShareMetric);
    run.outcome = RunOutcome::kMeasured;
  } catch (const UserError& error) {
    run.reason = error.what();
  }
  return run;
}

std::string name_of(const ParallelSetting& setting, int64_t ranks) {
  return setting.mode == kOneProcess ? setting.mode : fmt::format("{}: {}", ranks, setting.mode);
}

std::string link_name(const ParallelSetting& setting) {
  if (setting.mode == kOneProcess) return kNothing;
  if (!setting.link) return "this host's memory";
  return fmt::format("{:g} Gbit/s, {:g} µs", gbit_per_second(*setting.link),
                     latency_microseconds(*setting.link));
}

std::string line_of(const ParallelSetting& setting, const ParallelRun& run, int64_t ranks) {
  const std::string head = fmt::format("{}, {}: ", name_of(setting, ranks), link_name(setting));
  return head + (run.is_measured() ? fmt::format("{:.3f} samples/s", run.samples_per_second)
                                   : outcome_text(run.outcome));
}

// The mode over the host's memory, if it was measured.
const ParallelResult* measured_mode(const ParallelResults& results, std::string_view mode) {
  for (const ParallelResult& result : results.settings) {
    if (result.setting.mode == mode && !result.setting.link && result.is_measured()) return &result;
  }
  return nullptr;
}

double speed_of(const ParallelResult& result) {
  return result.of(&ParallelRun::samples_per_second).median;
}

// Of a result that was measured.
std::string times_text(const ParallelResult& result, const ParallelResult* reference) {
  return reference == nullptr ? kNothing : fmt::format("{:.2f}", speed_of(result) / speed_of(*reference));
}

std::string number_text(const std::optional<double>& number) {
  return number ? fmt::format("{:.3f}", *number) : kNothing;
}

std::string percent_text(const std::optional<double>& share) {
  return share ? fmt::format("{:.0f} %", 100 * *share) : kNothing;
}

nlohmann::ordered_json json_of(const std::optional<double>& number) {
  return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json();
}

bool is_left_out(const ParallelOptions& options, const std::string& mode) {
  return mode == "dp" && options.accumulation > 1;
}

std::vector<std::string> mode_words(const std::string& mode) {
  constexpr std::string_view kZero = "zero_";
  if (mode.starts_with(kZero)) return {"--zero_stage", mode.substr(kZero.size())};
  return {"--parallel_mode", mode};
}

std::vector<std::string> link_words(const std::optional<RankLink>& link) {
  if (!link) return {};
  return {"--link_bandwidth", fmt::format("{}", gbit_per_second(*link)), "--link_latency",
          fmt::format("{}", latency_microseconds(*link))};
}

// The flags of train that make the setting.
std::vector<std::string> setting_words(const ParallelOptions& options, const ParallelSetting& setting) {
  const int64_t times = setting.mode == kOneProcess ? options.ranks : 1;
  std::vector<std::string> words = options.flags;
  words.insert(words.end(), {"--gradient_accumulation_steps", std::to_string(options.accumulation * times),
                             "--num_threads", std::to_string(options.threads * times)});
  if (setting.mode != kOneProcess) {
    for (std::string& word : mode_words(setting.mode)) words.push_back(std::move(word));
  }
  return words;
}

std::optional<PredictedStep> predicted_step(const std::string& program, const ParallelOptions& options,
                                            const ParallelSetting& setting) {
  std::vector<std::string> command = {program};
  for (std::string& word : plan_words(options, setting)) command.push_back(std::move(word));
  const FinishedProcess finished = run_shoehorn(command);
  if (finished.exit_code != 0) return std::nullopt;
  const nlohmann::json plan = nlohmann::json::parse(finished.output, nullptr, false);
  if (!plan.is_object() || plan.value("step_seconds_are", "") != "calibrated") return std::nullopt;
  PredictedStep step{plan["step_seconds"].get<double>()};
  if (setting.mode == kOneProcess) return step;
  if (!plan["messages"].is_object()) return std::nullopt;
  step.hidden_share = plan["messages"]["hidden_share"].get<double>();
  return step;
}

std::optional<double> predicted_seconds(const ParallelResult& result) {
  return result.predicted ? std::optional(result.predicted->seconds) : std::nullopt;
}

nlohmann::ordered_json run_to_json(const ParallelRun& run) {
  if (!run.is_measured()) return {{"outcome", outcome_text(run.outcome)}, {"reason", run.reason}};
  nlohmann::ordered_json json = {{"outcome", outcome_text(run.outcome)},
                                 {"samples_per_second", run.samples_per_second},
                                 {"step_seconds", json_of(run.step_seconds)},
                                 {"train_seconds", run.train_seconds},
                                 {"train_loss", run.train_loss},
                                 {"sent_bytes_in_step", run.sent_bytes},
                                 {"process_bytes", run.process_bytes}};
  if (run.early_share) {
    json["messages_done_share"] = json_of(run.done_share);
    json["messages_early_share"] = json_of(run.early_share);
    json["messages_hidden_share"] = json_of(run.hidden_share);
  }
  return json;
}

}  // namespace

const ParallelRun* ParallelResult::unmeasured() const {
  const auto found = std::ranges::find_if(runs, [](const ParallelRun& run) { return !run.is_measured(); });
  return found == runs.end() ? nullptr : &*found;
}

Spread ParallelResult::of(double ParallelRun::* figure) const {
  std::vector<double> values;
  for (const ParallelRun& run : runs) values.push_back(run.*figure);
  return spread_of(std::move(values));
}

std::optional<double> ParallelResult::of(std::optional<double> ParallelRun::* figure) const {
  std::vector<double> values;
  for (const ParallelRun& run : runs) {
    if (run.*figure) values.push_back(*(run.*figure));
  }
  return values.empty() ? std::nullopt : std::optional(median(std::move(values)));
}

std::string left_out_text(const ParallelOptions& options) {
  for (const std::string& mode : options.modes) {
    if (!is_left_out(options, mode)) continue;
    return fmt::format(
        "{} is left out: DataParallel takes one micro-batch of a rank in a step, and --gradient_accumulation_steps is {}",
        mode, options.accumulation);
  }
  return {};
}

std::vector<ParallelSetting> parallel_settings(const ParallelOptions& options) {
  std::vector<ParallelSetting> settings = {{kOneProcess}};
  std::vector<std::optional<RankLink>> links = {std::nullopt};
  links.insert(links.end(), options.links.begin(), options.links.end());
  for (const std::optional<RankLink>& link : links) {
    for (const std::string& mode : options.modes) {
      if (!is_left_out(options, mode)) settings.push_back({mode, link});
    }
  }
  return settings;
}

std::vector<std::string> launch_words(int64_t ranks, const std::optional<RankLink>& link) {
  return joined({"launch", "--nproc_per_node", std::to_string(ranks)}, link_words(link));
}

std::vector<std::string> command_words(const ParallelOptions& options, const ParallelSetting& setting) {
  std::vector<std::string> words;
  if (setting.mode != kOneProcess) words = launch_words(options.ranks, setting.link);
  words.emplace_back("train");
  for (std::string& word : setting_words(options, setting)) words.push_back(std::move(word));
  words.insert(words.end(),
               {"--profile", std::to_string(kProfiledSteps), "--save_strategy", "no", "--report_to", "none"});
  return words;
}

std::vector<std::string> plan_words(const ParallelOptions& options, const ParallelSetting& setting) {
  std::vector<std::string> words = {"plan"};
  for (std::string& word : setting_words(options, setting)) words.push_back(std::move(word));
  if (setting.mode != kOneProcess) {
    words.insert(words.end(), {"--world_size", std::to_string(options.ranks)});
    for (std::string& word : link_words(setting.link)) words.push_back(std::move(word));
  }
  words.emplace_back("--json");
  return words;
}

ParallelResults walk_parallel(const ParallelOptions& options, const RunProgress& on_run,
                              const std::function<void(const ParallelResults&)>& on_result) {
  const std::string program = own_program().string();
  ParallelResults results{.options = options, .machine = this_machine()};
  for (ParallelSetting& setting : parallel_settings(options))
    results.settings.push_back({std::move(setting)});
  const auto settings = std::ssize(results.settings);
  const int64_t of = options.repeats * settings;
  if (on_run) on_run(0, of, "");
  for (ParallelResult& result : results.settings)
    result.predicted = predicted_step(program, options, result.setting);
  for (int64_t done = 0; done < of; ++done) {
    const int64_t round = done / settings, at = done % settings;
    ParallelResult& result = results.settings[static_cast<size_t>(round % 2 == 0 ? at : settings - 1 - at)];
    std::vector<std::string> command = {program};
    for (std::string& word : command_words(options, result.setting)) command.push_back(std::move(word));
    const std::filesystem::path directory = options.directory / "run";
    command.insert(command.end(), {"--output_dir", directory.string()});
    result.runs.push_back(read_run(run_shoehorn(command), directory));
    std::filesystem::remove_all(directory);
    if (on_run) on_run(done + 1, of, line_of(result.setting, result.runs.back(), options.ranks));
    if (on_result) on_result(results);
  }
  return results;
}

std::string format_parallel(const ParallelResults& results) {
  TextTable table{.columns = {{"setting"},
                              {"link"},
                              {"samples/s", true},
                              {"lowest", true},
                              {"highest", true},
                              {"÷ one", true},
                              {"÷ ddp", true},
                              {"step, s", true},
                              {"predicted", true},
                              {"sent in a step", true},
                              {"hidden", true},
                              {"memory", true}}};
  const ParallelResult* one = measured_mode(results, kOneProcess);
  const ParallelResult* ddp = measured_mode(results, "ddp");
  std::string reasons = left_out_text(results.options);
  if (!reasons.empty()) reasons += "\n";
  for (const ParallelResult& result : results.settings) {
    std::vector<std::string> row = {name_of(result.setting, results.options.ranks),
                                    link_name(result.setting)};
    const ParallelRun* failed = result.unmeasured();
    if (failed != nullptr || result.runs.empty()) {
      row.push_back(failed == nullptr ? kNothing : outcome_text(failed->outcome));
      if (failed != nullptr) reasons += fmt::format("{}: {}\n", row[0], failed->reason);
      row.resize(table.columns.size(), kNothing);
    } else {
      const Spread speed = result.of(&ParallelRun::samples_per_second);
      for (const double figure : {speed.median, speed.low, speed.high})
        row.push_back(fmt::format("{:.3f}", figure));
      row.push_back(times_text(result, one));
      row.push_back(times_text(result, ddp));
      row.push_back(number_text(result.of(&ParallelRun::step_seconds)));
      row.push_back(number_text(predicted_seconds(result)));
      row.push_back(result.runs[0].sent_bytes > 0 ? format_bytes(result.runs[0].sent_bytes) : kNothing);
      row.push_back(percent_text(result.of(&ParallelRun::hidden_share)));
      row.push_back(format_bytes(result.runs[0].process_bytes));
    }
    table.rows.push_back(std::move(row));
  }
  return fmt::format(
      "{}\n{} ranks of {} and one process of {}, the same effective batch; medians of {} runs; ÷ one, ÷ ddp: samples/s of "
      "the one process and of ddp over this host's memory; hidden: of what was complete before the backward's end\n{}{}",
      format_machine(results.machine), results.options.ranks, plural(results.options.threads, "thread"),
      plural(results.options.threads * results.options.ranks, "thread"), results.options.repeats,
      format_table(table), reasons);
}

nlohmann::ordered_json to_json(const ParallelResults& results) {
  const ParallelResult* reference = measured_mode(results, kOneProcess);
  nlohmann::ordered_json settings = nlohmann::ordered_json::array();
  for (const ParallelResult& result : results.settings) {
    nlohmann::ordered_json one = {{"mode", result.setting.mode},
                                  {"link", nullptr},
                                  {"command", command_words(results.options, result.setting)},
                                  {"predicted_step_seconds", json_of(predicted_seconds(result))},
                                  {"runs", nlohmann::ordered_json::array()}};
    if (result.predicted && result.predicted->hidden_share)
      one["predicted_hidden_share"] = *result.predicted->hidden_share;
    if (result.setting.link) {
      one["link"] = {{"latency_seconds", result.setting.link->latency_seconds},
                     {"bytes_per_second", result.setting.link->bytes_per_second}};
    }
    for (const ParallelRun& run : result.runs) one["runs"].push_back(run_to_json(run));
    if (result.is_measured()) {
      const Spread speed = result.of(&ParallelRun::samples_per_second);
      one["samples_per_second"] = {{"median", speed.median}, {"low", speed.low}, {"high", speed.high}};
      if (reference != nullptr) one["times_one_process"] = speed.median / speed_of(*reference);
    }
    settings.push_back(std::move(one));
  }
  return {{"machine", to_json(results.machine)},
          {"ranks", results.options.ranks},
          {"threads", results.options.threads},
          {"gradient_accumulation_steps", results.options.accumulation},
          {"left_out", left_out_text(results.options)},
          {"settings", std::move(settings)}};
}

int exit_code_of(const ParallelResults& results) {
  return std::ranges::any_of(results.settings,
                             [](const ParallelResult& result) { return result.unmeasured(); })
             ? 1
             : 0;
}

}  // namespace shoehorn
