#include "train/results.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "analysis/step_profile.h"
#include "base/error.h"
#include "base/process.h"
#include "io/directory_lock.h"
#include "io/file.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

constexpr JsonFormat kResultFormat = {.indent = 4, .final_newline = false};

// 93661.5 -> "1 day, 2:01:01.50", as str(timedelta) and two digits, which are cut and not rounded.
std::string format_duration(double seconds) {
  if (!std::isfinite(seconds)) return format_python_float(seconds);
  const auto whole = static_cast<int64_t>(seconds);
  const auto hundredths = static_cast<int64_t>(std::abs(seconds - static_cast<double>(whole)) * 100);
  const int64_t days = whole / 86400;
  std::string text;
  if (days != 0) text = fmt::format("{} day{}, ", days, days == 1 ? "" : "s");
  return text +
         fmt::format("{}:{:02}:{:02}.{:02}", whole / 3600 % 24, whole / 60 % 60, whole % 60, hundredths);
}

std::string format_metric(const std::string& key, const MetricValue& value) {
  const double number = metric_number(value);
  if (key.find("_mem_") != std::string::npos) return fmt::format("{:.0f}MB", std::floor(number / 0x1p20));
  if (key.find("_runtime") != std::string::npos) return format_duration(number);
  if (key == "total_flos") return fmt::format("{:.0f}GF", std::floor(number / 0x1p30));
  if (const auto* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  return format_python_float(round_to(number, 4));
}

double required(const Metrics& metrics, const std::string& name) {
  const auto found = metrics.find(name);
  if (found == metrics.end())
    throw user_error("[metrics] expected {}, got none; a summary is of training", name);
  return metric_number(found->second);
}

// What all_results.json has so far.
nlohmann::json combined_results(const std::filesystem::path& path) {
  nlohmann::json all = nlohmann::json::object();
  if (path_exists(path)) all = read_json(path);
  if (!all.is_object()) {
    throw user_error("[{}] expected a JSON object, got {}; move the file away", path.string(),
                     all.type_name());
  }
  return all;
}

std::string memory_line(int64_t bytes, std::string_view memory_of) {
  return fmt::format("{} occupied: {} MB.\n", memory_of, bytes >> 20);
}

}  // namespace

double round_to(double value, int digits) {
  if (!std::isfinite(value)) return value;
  const std::string text = fmt::format("{:.{}f}", value, digits);
  double rounded = value;
  std::from_chars(text.data(), text.data() + text.size(), rounded);
  return rounded;
}

Metrics speed_metrics(const std::string& split, double runtime_seconds, int64_t samples, int64_t steps) {
  Metrics metrics = {{split + "_runtime", round_to(runtime_seconds, 4)}};
  if (runtime_seconds == 0) return metrics;
  metrics[split + "_samples_per_second"] = round_to(static_cast<double>(samples) / runtime_seconds, 3);
  metrics[split + "_steps_per_second"] = round_to(static_cast<double>(steps) / runtime_seconds, 3);
  return metrics;
}

nlohmann::json to_json(const Metrics& metrics) {
  nlohmann::json object = nlohmann::json::object();
  for (const auto& [key, value] : metrics) {
    object[key] = std::visit([](auto number) { return nlohmann::json(number); }, value);
  }
  return object;
}

nlohmann::json to_json(const ScoreDetails& details, const std::string& split) {
  nlohmann::json object = nlohmann::json::object();
  for (const auto& [name, value] : details.averages)
    object[split + "_" + name] = std::visit([](auto number) { return nlohmann::json(number); }, value);
  for (const ClassMetrics& of : details.classes) {
    object[split + "_classes"][of.name] = {
        {"precision", of.precision}, {"recall", of.recall}, {"f1", of.f1}, {"support", of.support}};
  }
  if (!details.confusion) return object;
  const ConfusionMatrix& confusion = *details.confusion;
  nlohmann::json& matrix = object[split + "_confusion_matrix"];
  matrix["labels"] = confusion.names;
  matrix["counts"] = nlohmann::json::array();
  for (size_t label = 0; label < confusion.names.size(); ++label) {
    nlohmann::json row = nlohmann::json::array();
    for (size_t prediction = 0; prediction < confusion.names.size(); ++prediction)
      row.push_back(confusion.at(label, prediction));
    matrix["counts"].push_back(std::move(row));
  }
  return object;
}

void add_script_metrics(Metrics& metrics, const std::string& split, int64_t samples) {
  metrics[split + "_samples"] = samples;
  if (const auto found = metrics.find(split + "_perplexity"); found != metrics.end())
    metrics["perplexity"] = found->second;
}

void add_profile_metrics(Metrics& metrics, const StepProfile& profile) {
  if (profile.recorded_steps() > 0) metrics[kProfiledStepMetric] = profile.median_step_seconds();
}

void add_overlap_metrics(Metrics& metrics, const MessageOverlap& overlap) {
  if (overlap.bytes <= 0) return;
  metrics[kDoneShareMetric] = overlap.done_share();
  metrics[kEarlyShareMetric] = overlap.early_share();
  if (overlap.early_bytes > 0) metrics[kHiddenShareMetric] = overlap.hidden_share();
}

std::string format_metrics(std::string_view split, const Metrics& metrics) {
  std::vector<std::pair<std::string, std::string>> lines;
  size_t key_width = 0;
  size_t value_width = 0;
  for (const auto& [key, value] : metrics) {
    lines.emplace_back(key, format_metric(key, value));
    key_width = std::max(key_width, key.size());
    value_width = std::max(value_width, lines.back().second.size());
  }
  std::string text = fmt::format("***** {} metrics *****\n", split);
  for (const auto& [key, value] : lines) {
    text += fmt::format("  {:<{}} = {:>{}}\n", key, key_width, value, value_width);
  }
  return text;
}

void check_combined_results(const std::filesystem::path& output_dir) {
  combined_results(output_dir / "all_results.json");
}

void save_metrics(const std::filesystem::path& output_dir, const std::string& split, const Metrics& metrics,
                  bool combined) {
  save_results(output_dir, split, to_json(metrics), combined);
}

void save_results(const std::filesystem::path& output_dir, const std::string& split,
                  const nlohmann::json& results, bool combined) {
  std::optional<DirectoryLock> lock;
  if (combined) lock.emplace(output_dir);  // all_results.json is read and written
  write_json_atomic(output_dir / (split + "_results.json"), results, kResultFormat);
  if (!combined) return;
  const std::filesystem::path path = output_dir / "all_results.json";
  nlohmann::json all = combined_results(path);
  all.update(results);
  write_json_atomic(path, all, kResultFormat);
}

std::string format_summary(const Metrics& metrics, int64_t memory_bytes, std::string_view memory_of) {
  return fmt::format("Time: {:.2f}\nSamples/second: {:.2f}\n", required(metrics, "train_runtime"),
                     required(metrics, "train_samples_per_second")) +
         memory_line(memory_bytes, memory_of);
}

void print_gpu_utilization(std::ostream& out) {
  out << memory_line(process_resident_bytes(), "Memory") << std::flush;
}

}  // namespace shoehorn
