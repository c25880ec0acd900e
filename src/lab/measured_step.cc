#include "lab/measured_step.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <sstream>

#include "arguments/flag_words.h"
#include "base/error.h"
#include "base/median.h"
#include "base/utf8.h"
#include "io/json_file.h"
#include "lab/error_report.h"

namespace shoehorn {

namespace {

using Json = nlohmann::json;

constexpr int kExitRefused = 2;

// The last line that is a JSON object; null if there is none. Libraries may have printed before it.
Json last_json_object(const std::string& text) {
  Json found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('{')) continue;
    Json object = Json::parse(line, nullptr, false);
    if (object.is_object()) found = std::move(object);
  }
  return found;
}

// The last words of a process that did not end as one of ours does.
std::string last_words(const FinishedProcess& finished) {
  if (finished.ended_by_signal()) {
    const bool killed = finished.signal == 9;
    return fmt::format("ended by signal {}{}", finished.signal,
                       killed ? ", as where the machine's memory ran out" : "");
  }
  std::string last;
  std::string error;
  std::istringstream lines(replace_invalid_utf8(finished.error));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("error: ")) error = line.substr(std::strlen("error: "));
    // mpirun ends with a line of dashes.
    if (line.find_first_not_of("-=* \t\r") != std::string::npos) last = line;
  }
  if (!error.empty()) return error;
  return last.empty() ? fmt::format("exit code {}", finished.exit_code) : last;
}

// 0 where there is none, or null.
double number_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || !found->is_number() ? 0 : found->get<double>();
}

int64_t bytes_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? 0 : whole_number(*found).value_or(0);
}

StepRun unmeasured(const FinishedProcess& finished) {
  StepRun run;
  const RunFailure failure = failure_of(finished);
  run.outcome = failure.outcome;
  run.reason = failure.reason;
  return run;
}

// False where the object has no speed.
bool read_speed(const Json& object, StepRun& run) {
  run.samples_per_second = number_of(object, "samples_per_second");
  run.step_seconds = number_of(object, "step_seconds");
  run.first_step_seconds = number_of(object, "first_step_seconds");
  if (const auto samples = object.find("step_samples"); samples != object.end() && samples->is_array()) {
    for (const Json& sample : *samples) {
      if (sample.is_number()) run.step_samples.push_back(sample.get<double>());
    }
  }
  if (const auto load = object.find("load"); load != object.end() && load->is_object()) {
    run.loads.push_back({number_of(*load, "average_before"), number_of(*load, "average_after"),
                         bytes_of(*load, "involuntary_switches"), number_of(*load, "cpu_share")});
  }
  return run.samples_per_second > 0 && run.step_seconds > 0;
}

template <typename T>
T median_of(const std::vector<StepRun>& runs, const std::function<T(const StepRun&)>& value) {
  std::vector<T> values;
  for (const StepRun& run : runs) values.push_back(value(run));
  return median(std::move(values));
}

}  // namespace

std::string outcome_text(RunOutcome outcome) {
  switch (outcome) {
    case RunOutcome::kMeasured:
      return "measured";
    case RunOutcome::kDoesNotFit:
      return "does not fit";
    case RunOutcome::kNotInThisVersion:
      return "not in this version";
    case RunOutcome::kRefused:
      return "refused";
    case RunOutcome::kFailed:
      return "failed";
  }
  CHECK(false, "outcome {}", static_cast<int>(outcome));
}

RunFailure failure_of(const FinishedProcess& finished) {
  ErrorReport report;
  if (finished.ended_by_signal() || !read_error(finished.error, report)) {
    // A peer, which reports in its own way, refuses with the exit code that ours does.
    const bool is_refused = finished.exit_code == kExitRefused;
    return {is_refused ? RunOutcome::kRefused : RunOutcome::kFailed, last_words(finished)};
  }
  switch (report.kind) {
    case ErrorKind::kDoesNotFit:
      return {RunOutcome::kDoesNotFit, report.message};
    case ErrorKind::kNotInThisVersion:
      return {RunOutcome::kNotInThisVersion, report.message};
    case ErrorKind::kUser:
      return {RunOutcome::kRefused, report.message};
    case ErrorKind::kOther:
      break;
  }
  return {RunOutcome::kFailed, report.message};
}

FinishedProcess run_shoehorn(const std::vector<std::string>& words) {
  return run_process(words, {std::string(kErrorsAsJson)});
}

StepPlan read_plan(const FinishedProcess& finished) {
  StepPlan plan;
  // `plan` prints its JSON over several lines, also where it refuses.
  const Json json = Json::parse(finished.output, nullptr, false);
  if (!json.is_object() || !json.contains("fits")) {
    const RunFailure failure = failure_of(finished);
    plan.outcome = failure.outcome;
    plan.reason = failure.reason;
    return plan;
  }
  plan.outcome = json["fits"] == true ? RunOutcome::kMeasured : RunOutcome::kDoesNotFit;
  plan.peak_bytes = bytes_of(json, "process_peak_bytes");
  plan.budget_bytes = bytes_of(json, "budget_bytes");
  if (const auto roles = json.find("by_role"); roles != json.end())
    plan.weight_bytes = bytes_of(*roles, "weight");
  plan.program = json.value("program", "");
  return plan;
}

StepRun read_step(const FinishedProcess& finished, const StepPlan& plan) {
  const Json json = finished.exit_code == 0 ? last_json_object(finished.output) : Json();
  StepRun run;
  if (!json.is_object() || !read_speed(json, run)) return unmeasured(finished);
  run.outcome = RunOutcome::kMeasured;
  run.tokens_per_second = number_of(json, "tokens_per_second");
  run.predicted_bytes = bytes_of(json, "memory_process_predicted_bytes");
  if (const auto program = json.find("program"); program != json.end() && program->is_string())
    run.program = program->get<std::string>();
  // The weights are in the arenas, which are reserved all at once. So the two earlier stages follow from the
  // plan's bytes.
  run.memory.training_bytes = bytes_of(json, "memory_process_measured_bytes");
  run.memory.process_bytes = run.memory.training_bytes - bytes_of(json, "memory_arena_measured_bytes");
  run.memory.with_weights_bytes = run.memory.process_bytes + plan.weight_bytes;
  return run;
}

StepRun read_peer_step(const FinishedProcess& finished) {
  const Json json = finished.exit_code == 0 ? last_json_object(finished.output) : Json();
  StepRun run;
  if (!json.is_object() || !read_speed(json, run)) return unmeasured(finished);
  run.outcome = RunOutcome::kMeasured;
  run.memory = {bytes_of(json, "process_bytes"), bytes_of(json, "before_train_bytes"),
                bytes_of(json, "peak_bytes")};
  if (const auto ran = json.find("ran"); ran != json.end() && ran->is_string())
    run.ran = ran->get<std::string>();
  return run;
}

StepPlan plan_step(const std::filesystem::path& program, const std::vector<std::string>& words) {
  std::vector<std::string> plan = joined({program.string(), "plan", "--json"}, words);
  plan.insert(plan.end(), {"--world_size", "1"});  // what is measured is one process
  return read_plan(run_shoehorn(plan));
}

StepRun measure_step(const std::filesystem::path& program, const std::vector<std::string>& words,
                     const StepPlan& plan, const std::vector<std::string>& launch) {
  // Behind the words, which may say --json=false.
  const std::vector<std::string> step = joined({"bench", "step"}, joined(words, {"--json", "--no_limits"}));
  return read_step(run_shoehorn(joined({program.string()}, joined(launch, step))), plan);
}

StepRun measure_peer_step(const std::filesystem::path& python, const std::filesystem::path& script,
                          const std::vector<std::string>& words) {
  return read_peer_step(run_process(joined({python.string(), script.string()}, words)));
}

StepRun forbidden_run(const StepPlan& plan) {
  StepRun run;
  run.outcome = plan.outcome;
  run.reason =
      plan.outcome == RunOutcome::kDoesNotFit
          ? fmt::format("planned {} MiB, available {} MiB", plan.peak_bytes >> 20, plan.budget_bytes >> 20)
          : plan.reason;
  return run;
}

StepRun pooled_run(const std::vector<StepRun>& runs) {
  CHECK(!runs.empty(), "there is no run");
  for (const StepRun& run : runs) {
    if (!run.is_measured()) return run;
  }
  const auto number = [&](double StepRun::* member) {
    return median_of<double>(runs, [member](const StepRun& run) { return run.*member; });
  };
  const auto bytes = [&](int64_t MemoryStages::* member) {
    return median_of<int64_t>(runs, [member](const StepRun& run) { return run.memory.*member; });
  };
  StepRun result = runs[0];
  result.step_samples.clear();
  result.loads.clear();
  for (const StepRun& run : runs) {
    result.step_samples.insert(result.step_samples.end(), run.step_samples.begin(), run.step_samples.end());
    result.loads.insert(result.loads.end(), run.loads.begin(), run.loads.end());
  }
  result.step_seconds =
      result.step_samples.empty() ? number(&StepRun::step_seconds) : median(result.step_samples);
  for (double StepRun::* rate : {&StepRun::samples_per_second, &StepRun::tokens_per_second}) {
    const double in_step = runs[0].*rate * runs[0].step_seconds;
    result.*rate = result.step_seconds > 0 ? in_step / result.step_seconds : number(rate);
  }
  result.first_step_seconds = number(&StepRun::first_step_seconds);
  result.memory = {bytes(&MemoryStages::process_bytes), bytes(&MemoryStages::with_weights_bytes),
                   bytes(&MemoryStages::training_bytes)};
  result.predicted_bytes = median_of<int64_t>(runs, [](const StepRun& run) { return run.predicted_bytes; });
  return result;
}

MedianInterval interval_of(const StepRun& run) {
  return median_interval(run.step_samples.empty() ? std::vector<double>{run.step_seconds} : run.step_samples);
}

std::string describe_spread(const StepRun& run, double precision) {
  const MedianInterval interval = interval_of(run);
  const double samples_in_step = run.samples_per_second * run.step_seconds;
  const std::string range =
      fmt::format("{:.3g}–{:.3g} samples/s in {} step{}", samples_in_step / interval.most,
                  samples_in_step / interval.least, interval.count, interval.count == 1 ? "" : "s");
  if (!interval.has_confidence()) return range + ", too few to know the median";
  const double percent = 100 * interval.relative_half_width();
  return fmt::format("{}, median known to {:.2g} %{}", range, percent,
                     interval.is_stable(precision) ? "" : ", which is less well than asked for");
}

std::string counted_steps(int64_t steps) {
  return fmt::format("{} step{} a process after its first", steps - 1, steps == 2 ? "" : "s");
}

nlohmann::ordered_json to_json(const StepRun& run) {
  nlohmann::ordered_json json = {{"outcome", outcome_text(run.outcome)}};
  if (!run.is_measured()) {
    json["reason"] = run.reason;
    return json;
  }
  json["samples_per_second"] = run.samples_per_second;
  json["step_seconds"] = run.step_seconds;
  json["first_step_seconds"] = run.first_step_seconds;
  json["memory"] = {{"process_bytes", run.memory.process_bytes},
                    {"with_weights_bytes", run.memory.with_weights_bytes},
                    {"training_bytes", run.memory.training_bytes}};
  if (run.predicted_bytes > 0) json["predicted_bytes"] = run.predicted_bytes;
  const MedianInterval interval = interval_of(run);
  json["step_samples"] = run.step_samples;
  json["step_interval"] = {
      {"low", interval.low},     {"high", interval.high}, {"confidence", interval.confidence},
      {"least", interval.least}, {"most", interval.most}, {"outliers", interval.outliers}};
  json["load"] = nlohmann::ordered_json::array();
  for (const StepLoad& load : run.loads) {
    json["load"].push_back({{"average_before", load.average_before},
                            {"average_after", load.average_after},
                            {"involuntary_switches", load.involuntary_switches},
                            {"cpu_share", load.cpu_share}});
  }
  if (!run.ran.empty()) json["ran"] = run.ran;
  return json;
}

}  // namespace shoehorn
