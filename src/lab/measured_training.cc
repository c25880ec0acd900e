#include "lab/measured_training.h"

#include <exception>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "io/json_file.h"
#include "state/trainer_state.h"

namespace shoehorn {

namespace {

void read_results(const std::filesystem::path& directory, TrainingRun& run) {
  const std::filesystem::path file = directory / "all_results.json";
  const nlohmann::json results = read_json(file);
  const auto wrong = [&](const char* name, const char* expected) {
    return user_error("[{}: {}] expected {}, got {}", file.string(), name, expected,
                      results.is_object() && results.contains(name) ? results[name].dump() : "nothing");
  };
  const auto number = [&](const char* name) {
    const auto found = results.find(name);
    if (found == results.end() || !found->is_number()) throw wrong(name, "a number");
    return found->get<double>();
  };
  const auto bytes = [&](const char* name) {
    const auto found = results.find(name);
    const std::optional<int64_t> whole = found == results.end() ? std::nullopt : whole_number(*found);
    if (!whole || *whole < 0) throw wrong(name, "a number of bytes");
    return *whole;
  };
  run.train_seconds = number("train_runtime");
  run.samples_per_second = number("train_samples_per_second");
  run.train_loss = number("train_loss");
  run.eval_loss = number("eval_loss");
  run.eval_accuracy = number("eval_accuracy");
  run.predicted_bytes = bytes("memory_process_predicted_bytes");
  run.measured_bytes = bytes("memory_process_measured_bytes");
  run.data_wait_share = number("train_data_wait_share");
  const TrainerState state = load_trainer_state(directory / "trainer_state.json");
  for (const Metrics& entry : state.log_history) {
    if (const auto loss = entry.find("loss"); loss != entry.end())
      run.step_losses.push_back(metric_number(loss->second));
  }
}

}  // namespace

TrainingRun read_training(const FinishedProcess& finished, const std::filesystem::path& directory) {
  TrainingRun run;
  if (finished.exit_code != 0) {
    const RunFailure failure = failure_of(finished);
    run.outcome = failure.outcome;
    run.reason = failure.reason;
    return run;
  }
  try {
    read_results(directory, run);
    run.outcome = RunOutcome::kMeasured;
  } catch (const std::exception& error) {
    run.reason = error.what();
  }
  return run;
}

TrainingRun measure_training(const std::filesystem::path& program, const std::vector<std::string>& words,
                             const std::filesystem::path& directory) {
  std::vector<std::string> command = {program.string(), "train"};
  command.insert(command.end(), words.begin(), words.end());
  command.insert(command.end(), {"--output_dir", directory.string()});
  TrainingRun run = read_training(run_shoehorn(command), directory);
  std::filesystem::remove_all(directory);
  return run;
}

}  // namespace shoehorn
