#include "lab/measured_training.h"

#include <exception>

#include "base/error.h"
#include "lab/run_results.h"
#include "state/trainer_state.h"

namespace shoehorn {

namespace {

void read_results(const std::filesystem::path& directory, TrainingRun& run) {
  const RunResults results(directory);
  run.train_seconds = results.number("train_runtime");
  run.samples_per_second = results.number("train_samples_per_second");
  run.train_loss = results.number("train_loss");
  run.eval_loss = results.number("eval_loss");
  run.eval_accuracy = results.number("eval_accuracy");
  run.predicted_bytes = results.bytes("memory_process_predicted_bytes");
  run.measured_bytes = results.bytes("memory_process_measured_bytes");
  run.data_wait_share = results.number("train_data_wait_share");
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
