#include "lab/parallel_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/child_process.h"
#include "base/error.h"
#include "base/format.h"
#include "base/plural.h"
#include "exec/backends.h"
#include "lab/machine_text.h"
#include "lab/run_results.h"
#include "lab/text_table.h"
#include "train/results.h"

namespace shoehorn {

namespace {

constexpr const char* kOneProcess = "one process";

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

// ddp over the host's memory, if it was measured.
const ParallelResult* reference_of(const ParallelResults& results) {
  for (const ParallelResult& result : results.settings) {
    if (result.setting.mode == "ddp" && !result.setting.link && result.is_measured()) return &result;
  }
  return nullptr;
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

std::vector<ParallelSetting> parallel_settings(const ParallelOptions& options) {
  std::vector<ParallelSetting> settings = {{kOneProcess}, {"dp"}, {"ddp"}};
  for (const RankLink& link : options.links) {
    settings.push_back({"dp", link});
    settings.push_back({"ddp", link});
  }
  return settings;
}

std::vector<std::string> command_words(const ParallelOptions& options, const ParallelSetting& setting) {
  const bool is_one = setting.mode == kOneProcess;
  std::vector<std::string> words;
  if (!is_one) {
    words = {"launch", "--nproc_per_node", std::to_string(options.ranks)};
    if (setting.link) {
      words.insert(words.end(), {"--link_bandwidth", fmt::format("{}", gbit_per_second(*setting.link)),
                                 "--link_latency", fmt::format("{}", latency_microseconds(*setting.link))});
    }
  }
  words.emplace_back("train");
  words.insert(words.end(), options.flags.begin(), options.flags.end());
  if (is_one) {
    words.insert(words.end(),
                 {"--gradient_accumulation_steps", std::to_string(options.accumulation * options.ranks),
                  "--num_threads", std::to_string(options.threads * options.ranks)});
  } else {
    words.insert(words.end(),
                 {"--gradient_accumulation_steps", std::to_string(options.accumulation), "--num_threads",
                  std::to_string(options.threads), "--parallel_mode", setting.mode});
  }
  words.insert(words.end(), {"--save_strategy", "no", "--report_to", "none"});
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
                              {"÷ ddp", true},
                              {"seconds", true},
                              {"sent in a step", true},
                              {"memory", true}}};
  const ParallelResult* reference = reference_of(results);
  std::string reasons;
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
      row.push_back(fmt::format("{:.3f}", speed.median));
      row.push_back(fmt::format("{:.3f}", speed.low));
      row.push_back(fmt::format("{:.3f}", speed.high));
      row.push_back(
          reference == nullptr
              ? kNothing
              : fmt::format("{:.2f}", speed.median / reference->of(&ParallelRun::samples_per_second).median));
      row.push_back(fmt::format("{:.1f}", result.of(&ParallelRun::train_seconds).median));
      row.push_back(result.runs[0].sent_bytes > 0 ? format_bytes(result.runs[0].sent_bytes) : kNothing);
      row.push_back(format_bytes(result.runs[0].process_bytes));
    }
    table.rows.push_back(std::move(row));
  }
  return fmt::format(
      "{}\n{} ranks of {} and one process, the same effective batch; medians of {} runs; ÷ ddp: its samples/s over this "
      "host's memory\n{}{}",
      format_machine(results.machine), results.options.ranks, plural(results.options.threads, "thread"),
      results.options.repeats, format_table(table), reasons);
}

nlohmann::ordered_json to_json(const ParallelResults& results) {
  nlohmann::ordered_json settings = nlohmann::ordered_json::array();
  for (const ParallelResult& result : results.settings) {
    nlohmann::ordered_json one = {{"mode", result.setting.mode},
                                  {"link", nullptr},
                                  {"command", command_words(results.options, result.setting)},
                                  {"runs", nlohmann::ordered_json::array()}};
    if (result.setting.link) {
      one["link"] = {{"latency_seconds", result.setting.link->latency_seconds},
                     {"bytes_per_second", result.setting.link->bytes_per_second}};
    }
    for (const ParallelRun& run : result.runs) {
      if (!run.is_measured()) {
        one["runs"].push_back({{"outcome", outcome_text(run.outcome)}, {"reason", run.reason}});
        continue;
      }
      one["runs"].push_back({{"outcome", outcome_text(run.outcome)},
                             {"samples_per_second", run.samples_per_second},
                             {"train_seconds", run.train_seconds},
                             {"train_loss", run.train_loss},
                             {"sent_bytes_in_step", run.sent_bytes},
                             {"process_bytes", run.process_bytes}});
    }
    if (result.is_measured()) {
      const Spread speed = result.of(&ParallelRun::samples_per_second);
      one["samples_per_second"] = {{"median", speed.median}, {"low", speed.low}, {"high", speed.high}};
    }
    settings.push_back(std::move(one));
  }
  return {{"machine", to_json(results.machine)},
          {"ranks", results.options.ranks},
          {"threads", results.options.threads},
          {"settings", std::move(settings)}};
}

int exit_code_of(const ParallelResults& results) {
  return std::ranges::any_of(results.settings,
                             [](const ParallelResult& result) { return result.unmeasured(); })
             ? 1
             : 0;
}

}  // namespace shoehorn
