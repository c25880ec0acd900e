#include "train/run_start.h"

#include "base/error.h"
#include "train/adapter_weights.h"
#include "train/fp16_checkpoint.h"
#include "train/weights.h"

namespace shoehorn {

namespace {

bool is_float16(const StepOptions& step) {
  return step.precision == Precision::kFloat16 || step.evaluation_precision == Precision::kFloat16;
}

}  // namespace

std::optional<SafetensorsModel> start_run(const RunStart& start, Session& session) {
  const auto say = [&](const std::string& line) {
    if (start.on_line && !line.empty()) start.on_line(line);
  };
  if (!start.weights.empty() && is_float16(session.options().step))
    say(fp16_overflow_warning(SafetensorsModel::open(start.weights)));
  StartedWeights started = start_weights(start.weights, session.state(), session.executor(), start.seed);
  if (!start.adapter.empty()) load_adapter(start.adapter, session.family(), session.executor());
  if (!started.initialized.empty())
    say(fmt::format("new weights, to be trained: {}", fmt::join(started.initialized, ", ")));
  return std::move(started.files);
}

}  // namespace shoehorn
