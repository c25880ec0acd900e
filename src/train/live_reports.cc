#include "train/live_reports.h"

#include <nlohmann/json.hpp>

#include "io/file.h"
#include "io/json_file.h"
#include "train/log_lines.h"

namespace shoehorn {

namespace {

constexpr JsonFormat kLine = {.indent = -1};

}  // namespace

std::string tensorboard_tag(const std::string& name) {
  for (const std::string split : {"eval", "test"}) {
    if (name.starts_with(split + "_")) return split + "/" + name.substr(split.size() + 1);
  }
  return "train/" + name;
}

LiveReports::LiveReports(const TrainingArguments& args, const std::string& config, int64_t resumed_step) {
  const std::filesystem::path output = args.output_dir;
  if (!args.report_to.empty()) ensure_writable_directory(output);
  if (reports_to(args, "jsonl")) {
    const std::filesystem::path path = output / "log.jsonl";
    const bool goes_on = resumed_step > 0 && path_exists(path);
    write_text_atomic(
        path, goes_on ? lines_up_to_step(read_text_file(path), resumed_step, path.string()) : std::string());
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

void LiveReports::log(const Metrics& entry) {
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
