#include "state/starting_weights.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "io/file.h"
#include "io/manifest.h"
#include "state/adapter_config.h"
#include "state/adapter_weights.h"
#include "state/fp16_checkpoint.h"
#include "state/weights.h"

namespace shoehorn {

namespace {

bool is_float16(const StepOptions& step) {
  return step.precision == Precision::kFloat16 || step.evaluation_precision == Precision::kFloat16;
}

// What is new and is not trained would stay random, and an adapter would not have it.
void refuse_frozen(const std::vector<std::string>& drawn, const StateTable& state,
                   const std::filesystem::path& directory) {
  for (const std::string& name : drawn) {
    if (state.parameter(state.find_parameter(name)).trainable) continue;
    throw user_error(
        "[{}] expected a tensor '{}', which is frozen, got none of that name and size: it would stay random; name it in "
        "--lora_modules_to_save, or leave it out of --freeze",
        directory.string(), name);
  }
}

void say_without_checksums(const std::filesystem::path& where,
                           const std::vector<std::filesystem::path>& files,
                           const std::function<void(const std::string& line)>& on_line) {
  if (!on_line) return;
  std::vector<std::string> names;
  for (const std::filesystem::path& file : files) {
    if (!has_checksum(file)) names.push_back(file.filename().string());
  }
  if (names.empty()) return;
  on_line(fmt::format("{}: no checksum of {}, taken as read", where.string(), fmt::join(names, ", ")));
}

}  // namespace

void say_without_checksums(const TensorFiles& files,
                           const std::function<void(const std::string& line)>& on_line) {
  std::vector<std::filesystem::path> paths;
  for (const SafetensorsFile& file : files.files()) paths.push_back(file.path());
  say_without_checksums(files.path(), paths, on_line);
}

void say_without_checksums(const std::filesystem::path& checkpoint,
                           const std::function<void(const std::string& line)>& on_line) {
  std::vector<std::filesystem::path> paths;
  for (const std::string& name : list_directory(checkpoint)) {
    if (name.ends_with(".safetensors")) paths.push_back(checkpoint / name);
  }
  say_without_checksums(checkpoint, paths, on_line);
}

std::optional<OriginalWeights> start_run(const RunStart& start, Session& session) {
  const auto say = [&](const std::string& line) {
    if (start.on_line && !line.empty()) start.on_line(line);
  };
  if (!start.weights.empty() && is_float16(session.options().step))
    say(fp16_overflow_warning(TensorFiles::open_weights(start.weights)));
  const bool loads_adapter = !start.adapter.empty();
  if (loads_adapter)
    check_weight_tying(start.adapter, read_adapter_config(start.adapter), session.state().other_names());
  StartedWeights started = start_weights(
      start.weights, session.state(), session.executor(), start.seed, [&](const Parameter& parameter) {
        return (start.ignore_mismatched_sizes && is_of_head(session.state(), parameter)) ||
               (loads_adapter && replaces_head(session.family(), parameter));
      });
  if (started.originals) say_without_checksums(started.originals->files, start.on_line);
  say(format_unused(started.unused));
  std::vector<std::string> drawn = std::move(started.initialized);
  if (loads_adapter) {
    load_adapter(start.adapter, session.family(), session.executor());
    for (const ParameterId id : session.family().adapters.saved) {
      const std::string& name = session.state().parameter(id).name;
      std::erase(drawn, name);
      std::erase_if(started.dropped, [&](const DroppedTensor& tensor) { return tensor.parameter == name; });
    }
  }
  if (!drawn.empty()) {
    if (session.options().kind == RunKind::kEvaluate) {
      throw user_error(
          "[{}] expected every weight of the model, got none of {}; what it would say is random: train it for "
          "this task first",
          start.weights.string(), fmt::join(drawn, ", "));
    }
    refuse_frozen(drawn, session.state(), start.weights);
    say(format_dropped(started.dropped));
    say(fmt::format("new weights, to be trained: {}", fmt::join(drawn, ", ")));
  }
  return std::move(started.originals);
}

}  // namespace shoehorn
