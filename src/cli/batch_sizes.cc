#include "cli/batch_sizes.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/text_table.h"

namespace shoehorn {

namespace {

// NVIDIA's guide to matrix multiplication, as the efficient-training guides cite it.
constexpr const char* kTensorCoreMultiples = "fp16 8 (64 on an A100), int8 16, tf32 4, fp64 2";

std::vector<std::string> flags_for(const BatchSizesOptions& options, int64_t batch_size) {
  std::vector<std::string> words = {"--model", options.model};
  words.insert(words.end(), options.flags.begin(), options.flags.end());
  words.insert(words.end(), {"--per_device_train_batch_size", std::to_string(batch_size), "--max_steps",
                             std::to_string(options.steps)});
  return words;
}

double mib(int64_t bytes) {
  return static_cast<double>(bytes) / 0x1p20;
}

std::vector<std::string> row_of(const BatchSizeResult& size, bool is_best) {
  std::vector<std::string> row = {fmt::format("{}", size.batch_size), fmt::format("{}", size.tokens)};
  const StepRun& run = size.run;
  if (!run.is_measured()) {
    row.insert(row.end(), {"-", "-", "-", fmt::format("{:.0f}", mib(size.plan.peak_bytes)), "",
                           outcome_text(run.outcome, run.reason)});
    return row;
  }
  row.push_back(fmt::format("{:.3f}", run.samples_per_second));
  row.push_back(fmt::format("{:.3f}", run.step_seconds));
  row.push_back(fmt::format("{:.0f}", mib(run.memory.training_bytes)));
  row.push_back(fmt::format("{:.0f}", mib(run.predicted_bytes)));
  row.push_back(size.is_liked ? "yes" : "");
  row.push_back(is_best ? "best" : "");
  return row;
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
    size.is_liked = size.tokens % options.liked_tokens == 0;
    size.plan = plan_step(program, flags_for(options, batch_size));
    size.run.outcome = size.plan.outcome;
    size.run.reason = size.plan.reason;
    if (size.plan.outcome == RunOutcome::kRefused) throw UserError(size.plan.reason);
    if (size.plan.outcome == RunOutcome::kDoesNotFit)
      size.run.reason = fmt::format("planned {:.0f} MiB, available {:.0f} MiB", mib(size.plan.peak_bytes),
                                    mib(size.plan.budget_bytes));
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
                                 : outcome_text(size.run.outcome, size.run.reason);
    if (on_run) on_run(++done, of, fmt::format("batch {}: {}", size.batch_size, what));
  }
  return result;
}

std::string format_batch_sizes(const BatchSizesResult& result) {
  const BatchSizesOptions& options = result.options;
  std::string text = fmt::format("{}, sequences of {} tokens, by batch size; {}{}{}\n", options.model,
                                 options.sequence_length, counted(options.steps, 1),
                                 options.flags.empty() ? "" : "; ", fmt::join(options.flags, " "));
  std::vector<std::vector<std::string>> rows;
  const BatchSizeResult* best = result.best();
  for (const BatchSizeResult& size : result.sizes) rows.push_back(row_of(size, &size == best));
  text += format_table({{"batch", true},
                        {"tokens", true},
                        {"samples/s", true},
                        {"step s", true},
                        {"memory MiB", true},
                        {"predicted", true},
                        {"liked"},
                        {""}},
                       rows);
  if (best != nullptr)
    text += fmt::format("best: --per_device_train_batch_size {}, {:.3f} samples/s\n", best->batch_size,
                        best->run.samples_per_second);
  for (const BatchSizeResult& size : result.sizes) {
    if (!size.run.is_measured()) text += fmt::format("batch {}: {}\n", size.batch_size, size.run.reason);
  }
  text += fmt::format("liked here: tokens in multiples of {}; {}\n", options.liked_tokens, options.liked_why);
  text += fmt::format("liked by Tensor Cores, of batches and of layer sizes: {}\n", kTensorCoreMultiples);
  return text;
}

nlohmann::ordered_json to_json(const BatchSizesResult& result) {
  const BatchSizesOptions& options = result.options;
  nlohmann::ordered_json json = {
      {"model", options.model},
      {"flags", options.flags},
      {"sequence_length", options.sequence_length},
      {"steps", options.steps},
      {"liked", {{"tokens_multiple", options.liked_tokens}, {"why", options.liked_why}}}};
  nlohmann::ordered_json sizes = nlohmann::ordered_json::array();
  for (const BatchSizeResult& size : result.sizes) {
    nlohmann::ordered_json entry = {{"batch_size", size.batch_size},
                                    {"tokens", size.tokens},
                                    {"is_liked", size.is_liked},
                                    {"planned_bytes", size.plan.peak_bytes},
                                    {"budget_bytes", size.plan.budget_bytes}};
    entry.update(to_json(size.run));
    sizes.push_back(std::move(entry));
  }
  json["sizes"] = std::move(sizes);
  const BatchSizeResult* best = result.best();
  json["best_batch_size"] =
      best == nullptr ? nlohmann::ordered_json() : nlohmann::ordered_json(best->batch_size);
  return json;
}

int exit_code_of(const BatchSizesResult& result) {
  for (const BatchSizeResult& size : result.sizes) {
    if (size.run.outcome == RunOutcome::kFailed) return 1;
  }
  return result.best() == nullptr ? 2 : 0;
}

}  // namespace shoehorn
