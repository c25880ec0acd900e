#include "fit/batch_size_search.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exec/backends.h"

namespace shoehorn {

namespace {

FitCandidate of_size(const TrainingArguments& args, int64_t size) {
  FitCandidate run{args};
  set_micro_batch_size(run.arguments, size);
  run.flags = {"--per_device_train_batch_size", std::to_string(run.arguments.per_device_train_batch_size)};
  return run;
}

}  // namespace

int64_t next_batch_size(int64_t size) {
  return static_cast<int64_t>(0.9 * static_cast<double>(size));
}

int64_t find_smaller_batch_size(const Model& model, const SessionOfArguments& options_of,
                                const TrainingArguments& args, const BatchSizeMemory& memory) {
  std::vector<FitCandidate> runs;
  for (int64_t size = next_batch_size(args.per_device_train_batch_size); size > 0;) {
    runs.push_back(of_size(args, size));
    size = next_batch_size(runs.back().arguments.per_device_train_batch_size);
  }
  const SessionOptions asked = options_of(args);
  std::shared_ptr<const Backend> backend =
      asked.backend ? asked.backend : make_backend(kDefaultBackend, asked.threads);
  const int64_t overhead_bytes = backend->measure_overhead_bytes(AddressSpace::kHost) + memory.caller_bytes;
  // Without code that stays: the process that plans is the one that trains.
  PlanSearch search(model, options_of,
                    {.budget_bytes = memory.budget_bytes,
                     .overhead_bytes = overhead_bytes,
                     .backend = std::move(backend),
                     .keeps_code = false});
  const std::optional<PlannedCandidate> found = search.first_that_fits(runs);
  return found ? found->run.arguments.per_device_train_batch_size : 1;
}

}  // namespace shoehorn
