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

}  // namespace

const BatchSizeResult* BatchSizesResult::best() const {
  const BatchSizeResult* best = nullptr;
  for (const BatchSizeResult& size : sizes) {
    if (!size.run.is_measured()) continue;
    if (best == nullptr || size.run.samples_per_second > best->run.samples_per_second) best = &size;
  }
  return best;
}

BatchSizesResult measure_batch_sizes(const BatchSizesOptions& options, const RunProgress& on_run) {
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
  const auto of = static_cast<int64_t>(result.sizes.size());
  int64_t done = 0;
  if (on_run) on_run(done, of, "");
  for (BatchSizeResult& size : result.sizes) {
    if (size.plan.outcome == RunOutcome::kMeasured)
      size.run = measure_step(program, flags_for(options, size.batch_size), size.plan);
    const std::string what = size.run.is_measured()
                                 ? fmt::format("{:.3f} samples/s", size.run.samples_per_second)
                                 : outcome_text(size.run.outcome);
    if (on_run) on_run(++done, of, fmt::format("batch {}: {}", size.batch_size, what));
  }
  return result;
}

int exit_code_of(const BatchSizesResult& result) {
  for (const BatchSizeResult& size : result.sizes) {
    if (size.run.outcome == RunOutcome::kFailed) return 1;
  }
  return result.best() == nullptr ? 2 : 0;
}

}  // namespace shoehorn
