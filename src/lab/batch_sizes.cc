#include "lab/batch_sizes.h"

#include "base/user_error_kinds.h"

namespace shoehorn {

namespace {

std::vector<std::string> flags_for(const BatchSizesOptions& options, int64_t batch_size) {
  std::vector<std::string> words = {"--model", options.model};
  words.insert(words.end(), options.flags.begin(), options.flags.end());
  words.insert(words.end(), {"--per_device_train_batch_size", std::to_string(batch_size), "--max_steps",
                             std::to_string(options.steps)});
  return words;
}

// Of the seconds per sample, so that sizes compare.
MedianInterval sample_interval(const BatchSizeResult& size) {
  StepRun run = size.run;
  const double samples = run.samples_per_second * run.step_seconds;
  run.step_seconds /= samples;
  for (double& seconds : run.step_samples) seconds /= samples;
  return interval_of(run);
}

}  // namespace

const BatchSizeResult* BatchSizesResult::fastest() const {
  const BatchSizeResult* fastest = nullptr;
  for (const BatchSizeResult& size : sizes) {
    if (!size.run.is_measured()) continue;
    if (fastest == nullptr || size.run.samples_per_second > fastest->run.samples_per_second) fastest = &size;
  }
  return fastest;
}

std::vector<const BatchSizeResult*> BatchSizesResult::alike() const {
  const BatchSizeResult* first = fastest();
  std::vector<const BatchSizeResult*> found;
  for (const BatchSizeResult& size : sizes) {
    if (&size == first || !size.run.is_measured()) continue;
    if (!can_tell_apart(sample_interval(size), sample_interval(*first))) found.push_back(&size);
  }
  return found;
}

const BatchSizeResult* BatchSizesResult::best() const {
  return is_complete && alike().empty() ? fastest() : nullptr;
}

BatchSizesResult measure_batch_sizes(const BatchSizesOptions& options, const RunProgress& on_run,
                                     const std::function<void(const BatchSizesResult&)>& on_result) {
  const std::filesystem::path program = own_program();
  BatchSizesResult result;
  result.options = options;
  // Plans first: they say how many there are to measure.
  for (int64_t batch_size = 1; batch_size <= options.most; batch_size *= 2) {
    BatchSizeResult size;
    size.batch_size = batch_size;
    size.tokens = batch_size * options.sequence_length;
    size.is_preferred = size.tokens % options.preferred_token_multiple == 0;
    size.plan = plan_step(program, flags_for(options, batch_size));
    if (size.plan.outcome == RunOutcome::kRefused) throw UserError(size.plan.reason);
    if (size.plan.outcome == RunOutcome::kNotInThisVersion) throw NotInThisVersion(size.plan.reason);
    if (size.plan.outcome != RunOutcome::kMeasured) size.run = forbidden_run(size.plan);
    result.sizes.push_back(size);
    if (size.plan.outcome != RunOutcome::kMeasured) break;
  }
  std::vector<RoundSetting> settings;
  std::vector<BatchSizeResult*> measured;
  for (BatchSizeResult& size : result.sizes) {
    if (size.plan.outcome != RunOutcome::kMeasured) continue;
    measured.push_back(&size);
    settings.push_back({fmt::format("batch {}", size.batch_size),
                        [&program, &size, words = flags_for(options, size.batch_size)] {
                          return measure_step(program, words, size.plan);
                        }});
  }
  const auto pool = [&] {
    for (size_t i = 0; i < measured.size(); ++i) {
      if (!settings[i].runs.empty()) measured[i]->run = pooled_run(settings[i].runs);
    }
  };
  measure_in_rounds(settings, options.rounds, on_run, [&] {
    if (!on_result) return;
    pool();
    BatchSizesResult so_far = result;
    so_far.is_complete = false;
    std::erase_if(so_far.sizes, [](const BatchSizeResult& size) { return !size.run.is_measured(); });
    if (!so_far.sizes.empty()) on_result(so_far);
  });
  pool();
  if (on_result) on_result(result);
  return result;
}

int exit_code_of(const BatchSizesResult& result) {
  for (const BatchSizeResult& size : result.sizes) {
    if (size.run.outcome == RunOutcome::kFailed) return 1;
  }
  return result.fastest() == nullptr ? 2 : 0;
}

}  // namespace shoehorn
