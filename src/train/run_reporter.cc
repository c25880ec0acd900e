#include "train/run_reporter.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/file.h"
#include "io/json_file.h"

namespace shoehorn {

namespace {

constexpr JsonFormat kLine = {.indent = -1};

// The lines of a run that was stopped, up to the step at which it goes on. A last line that was cut by the
// stop is left out.
std::string kept_lines(const std::filesystem::path& path, int64_t resumed_step) {
  if (resumed_step == 0 || !path_exists(path)) return {};
  const std::string text = read_text_file(path);
  std::string kept;
  int64_t number = 1;
  for (size_t begin = 0; begin < text.size(); ++number) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    const std::string line = text.substr(begin, end - begin);
    const std::string what = fmt::format("{}:{}", path.string(), number);
    const nlohmann::json entry = parse_json(line, what);
    if (!entry.is_object() || !entry.contains("step") || !entry["step"].is_number_integer())
      throw user_error("[{}] expected an object with a step, got {}; move the file away", what, line);
    if (entry["step"].get<int64_t>() <= resumed_step) kept += line + '\n';
    begin = end + 1;
  }
  return kept;
}

}  // namespace

std::string tensorboard_tag(const std::string& name) {
  for (const std::string split : {"eval", "test"}) {
    if (name.starts_with(split + "_")) return split + "/" + name.substr(split.size() + 1);
  }
  return "train/" + name;
}

RunReporter::RunReporter(const TrainingArguments& args, const std::string& config, int64_t resumed_step) {
  const std::filesystem::path output = args.output_dir;
  if (!args.report_to.empty()) ensure_writable_directory(output);
  if (reports_to(args, "jsonl")) {
    const std::filesystem::path path = output / "log.jsonl";
    write_text_atomic(path, kept_lines(path, resumed_step));
    lines_.emplace(path);
  }
  if (!reports_to(args, "tensorboard")) return;
  events_.emplace(args.logging_dir.empty() ? output / "runs" / default_run_directory_name()
                                           : std::filesystem::path(args.logging_dir));
  events_->add_text("args", format_json(to_json(args), {.final_newline = false}), 0);
  if (!config.empty()) {
    const nlohmann::json json = parse_json(config, "config.json");
    events_->add_text("model_config", format_json(json, {}), 0);
  }
}

void RunReporter::log(const Metrics& entry) {
  if (lines_) {
    nlohmann::json object = nlohmann::json::object();
    for (const auto& [key, value] : entry)
      object[key] = std::visit([](auto number) { return nlohmann::json(number); }, value);
    lines_->write(format_json(object, kLine));
  }
  if (!events_) return;
  const auto step = static_cast<int64_t>(metric_number(entry.at("step")));
  for (const auto& [key, value] : entry) {
    if (key != "step") events_->add_scalar(tensorboard_tag(key), metric_number(value), step);
  }
}

}  // namespace shoehorn
