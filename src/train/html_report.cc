#include "train/html_report.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "analysis/memory_chart.h"
#include "analysis/rank_traffic.h"
#include "arguments/argument_table.h"
#include "base/error.h"
#include "base/format.h"
#include "base/plural.h"
#include "report/heat_map.h"
#include "report/html_page.h"
#include "report/plot.h"

namespace shoehorn {

namespace {

const PlotAxis kSteps = {"step", Unit::kCount};

// The log's entries behind that of the training's end are of the model that is saved.
bool ends_training(const Metrics& entry) {
  return entry.contains("train_runtime");
}

std::optional<double> last_value(const TrainerState& state, const std::string& key) {
  const std::vector<Metrics>& log = state.log_history;
  const auto last =
      std::find_if(log.rbegin(), log.rend(), [&](const Metrics& entry) { return entry.contains(key); });
  return last == log.rend() ? std::nullopt : std::optional(metric_number(last->at(key)));
}

// Of the steps. Where the best model is saved, its evaluation is none of the last step.
LineSeries series_of(const RunView& run, const std::string& key, const std::string& name) {
  LineSeries series{.name = name, .points = {}, .has_dots = key.starts_with("eval_")};
  for (const Metrics& entry : run.state.log_history) {
    if (ends_training(entry) && run.arguments.load_best_model_at_end) break;
    const auto found = entry.find(key);
    if (found != entry.end())
      series.points.push_back({metric_number(entry.at("step")), metric_number(found->second)});
  }
  return series;
}

// "learning rate" of "learning_rate", "accuracy" of "eval_accuracy".
std::string readable(std::string_view name) {
  if (name.starts_with("eval_")) name.remove_prefix(5);
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string capitalized(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

bool has_entries(const RunView& run, const std::string& key) {
  const std::vector<Metrics>& log = run.state.log_history;
  return std::any_of(log.begin(), log.end(), [&key](const Metrics& entry) { return entry.contains(key); });
}

// The metric that says which evaluation is the best: the one that chooses the best model, else accuracy, else the loss.
std::string main_metric(const RunView& run) {
  if (!run.arguments.metric_for_best_model.empty())
    return full_metric_name(run.arguments.metric_for_best_model);
  return has_entries(run, "eval_accuracy") ? "eval_accuracy" : "eval_loss";
}

struct BestEvaluation {
  std::string metric;
  int64_t step;
  double value;
};

// As the run keeps it, else by the main metric.
std::optional<BestEvaluation> best_evaluation(const RunView& run) {
  const std::string metric = main_metric(run);
  if (run.state.best_metric && run.state.best_global_step)
    return BestEvaluation{metric, *run.state.best_global_step, *run.state.best_metric};
  std::optional<BestEvaluation> best;
  for (const PlotPoint& point : series_of(run, metric, metric).points) {
    const bool is_better = !best || (metric == "eval_loss" ? point.y < best->value : point.y > best->value);
    if (std::isfinite(point.y) && is_better) best = {metric, static_cast<int64_t>(point.x), point.y};
  }
  return best;
}

std::vector<PlotMark> best_mark(const RunView& run) {
  const std::optional<BestEvaluation> best = best_evaluation(run);
  if (!best) return {};
  return {{static_cast<double>(best->step), fmt::format("best, step {}", format_count(best->step))}};
}

void add_curve(HtmlPage& page, const RunView& run, const std::string& title, const std::string& key,
               const PlotAxis& axis, std::string_view caption = {}) {
  LineChart chart{.title = title, .x = kSteps, .y = axis};
  chart.series.push_back(series_of(run, key, readable(key)));
  if (!chart.series[0].points.empty()) page.add_figure(draw(chart), caption);
}

void add_training(HtmlPage& page, const RunView& run) {
  page.add_heading("Training");
  LineChart loss{.title = "Loss", .x = kSteps};
  loss.marks = best_mark(run);
  for (const auto& [key, name] : {std::pair("loss", "training"), std::pair("eval_loss", "evaluation")}) {
    LineSeries series = series_of(run, key, name);
    if (!series.points.empty()) loss.series.push_back(std::move(series));
  }
  page.add_figure(
      draw(loss),
      "Training: mean over the steps since the last log entry. A dot is an evaluation. A gap is a loss that is not finite.");
  add_curve(page, run, "Learning rate", "learning_rate", {.from_zero = true},
            "Of the last step before a log entry.");
  add_curve(page, run, "Norm of the gradient, before clipping", "grad_norm", {.from_zero = true},
            "Of the last step before a log entry.");
  LineChart speed{.title = "Samples a second", .x = kSteps, .y = {.from_zero = true}};
  speed.series.push_back({"samples a second", {}});
  for (const Throughput& entry : run.throughput)
    speed.series[0].points.push_back({static_cast<double>(entry.step), entry.samples_per_second});
  page.add_figure(draw(speed), "Of the steps since the last log entry, without evaluation and checkpoints.");
}

// What is a share is in one plot; of the rest each has its own scale. A plot of one metric has its name.
void draw_metrics(HtmlPage& page, const RunView& run, const std::vector<std::string>& names) {
  constexpr std::string_view kCaption = "A dot is an evaluation.";
  static const std::set<std::string> kNotDrawn = {"eval_loss", "eval_runtime", "eval_samples_per_second",
                                                  "eval_steps_per_second"};
  LineChart shares{.title = "Metrics of the evaluations", .x = kSteps};
  std::vector<LineChart> others;
  for (const std::string& name : names) {
    if (kNotDrawn.contains(name)) continue;
    LineSeries series = series_of(run, name, readable(name));
    const bool is_share = !name.ends_with("loss") &&
                          std::all_of(series.points.begin(), series.points.end(), [](const PlotPoint& point) {
                            return !std::isfinite(point.y) || std::abs(point.y) <= 1;
                          });
    if (!is_share) {
      LineChart& chart = others.emplace_back();
      chart.title = capitalized(series.name);
      chart.x = kSteps;
    }
    (is_share ? shares : others.back()).series.push_back(std::move(series));
  }
  if (shares.series.size() == 1) shares.title = capitalized(shares.series[0].name);
  const auto add = [&](LineChart& chart, std::string_view caption) {
    chart.marks = best_mark(run);
    page.add_figure(draw(chart), caption);
  };
  if (!shares.series.empty()) {
    const bool is_language = has_entries(run, "eval_perplexity");
    add(shares, is_language
                    ? "Accuracy is the share of tokens that the model finds most likely behind those before "
                      "them. A dot is an evaluation."
                    : kCaption);
  }
  for (LineChart& chart : others) add(chart, kCaption);
}

// Metrics of evaluations besides the loss, and how fast they were.
void add_evaluation(HtmlPage& page, const RunView& run) {
  std::vector<std::string> names;
  std::vector<const Metrics*> entries;
  std::vector<std::string> steps;
  bool is_saved_model = false;
  for (const Metrics& entry : run.state.log_history) {
    is_saved_model = is_saved_model || ends_training(entry);
    if (!entry.contains("eval_loss")) continue;
    entries.push_back(&entry);
    steps.push_back(is_saved_model ? "saved model"
                                   : format_value(metric_number(entry.at("step")), Unit::kCount));
    for (const auto& [key, value] : entry) {
      if (key.starts_with("eval_") && std::find(names.begin(), names.end(), key) == names.end())
        names.push_back(key);
    }
  }
  if (entries.empty()) return;
  page.add_heading("Evaluation");
  if (entries.size() > 1) draw_metrics(page, run, names);
  HtmlTable table{.columns = {{"step", true}}};
  for (const std::string& name : names) table.columns.push_back({readable(name), true});
  for (size_t i = 0; i < entries.size(); ++i) {
    std::vector<std::string> row = {steps[i]};
    for (const std::string& name : names) {
      const auto found = entries[i]->find(name);
      row.push_back(found == entries[i]->end() ? "" : fmt::format("{:.4f}", metric_number(found->second)));
    }
    table.rows.push_back(std::move(row));
  }
  page.add_table(table);
}

// Of the last evaluation.
void add_classes(HtmlPage& page, const ScoreDetails& all) {
  if (all.classes.empty()) return;
  const ScoreDetails details = all.without_absent_classes();
  HtmlTable table{
      .caption = "Classes of the last evaluation",
      .columns = {{"class"}, {"precision", true}, {"recall", true}, {"F1", true}, {"samples", true}}};
  for (const ClassMetrics& of : details.classes) {
    table.rows.push_back({of.name, fmt::format("{:.4f}", of.precision), fmt::format("{:.4f}", of.recall),
                          fmt::format("{:.4f}", of.f1), format_count(of.support)});
  }
  page.add_table(table);
  if (const size_t absent = all.classes.size() - details.classes.size(); absent > 0) {
    page.add_paragraph(fmt::format("And {}, which no sample has as its label and no prediction names.",
                                   plural(static_cast<int64_t>(absent), "other class")));
  }
  if (!details.confusion) return;
  page.add_figure(
      draw(HeatMap{.title = "Confusion matrix",
                   .row_title = "label",
                   .column_title = "prediction",
                   .names = details.confusion->names,
                   .counts = details.confusion->counts}),
      "How many samples of each label had each prediction; shade is the share of the label's samples.");
}

HtmlTable bytes_table(const std::string& caption, const std::string& what,
                      const std::map<std::string, int64_t>& bytes) {
  HtmlTable table{.caption = caption, .columns = {{what}, {"memory", true}, {"share", true}}};
  std::vector<std::pair<std::string, int64_t>> rows(bytes.begin(), bytes.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  double sum = 0;
  for (const auto& [name, amount] : rows) sum += static_cast<double>(amount);
  for (const auto& [name, amount] : rows) {
    table.rows.push_back({readable(name), format_bytes(amount),
                          format_value(static_cast<double>(amount) / std::max(1.0, sum), Unit::kShare)});
  }
  return table;
}

void add_memory(HtmlPage& page, const RunView& run) {
  page.add_heading("Memory");
  page.add_figure(draw(memory_chart(run.session)),
                  "As planned: what lives while each operation runs, in the order in which they run.");
  const auto measured = [&](const char* name) -> std::optional<int64_t> {
    const auto found = run.metrics.find(name);
    if (found == run.metrics.end()) return std::nullopt;
    return static_cast<int64_t>(metric_number(found->second));
  };
  HtmlTable agreement{.caption = "Predicted and measured",
                      .columns = {{""}, {"predicted", true}, {"measured", true}, {"difference", true}}};
  const auto add = [&](const char* what, int64_t predicted, std::optional<int64_t> found) {
    agreement.rows.push_back(
        {what, format_bytes(predicted), found ? format_bytes(*found) : "",
         found ? format_difference(static_cast<double>(*found - predicted), Unit::kBytes) : ""});
  };
  add("arenas", run.forecast.arena_bytes(), measured("memory_arena_measured_bytes"));
  add("whole process", run.forecast.process_peak_bytes(), measured("memory_process_measured_bytes"));
  page.add_table(agreement);
  page.add_table(bytes_table("By role, at the peak of the step", "role", run.forecast.by_role));
  page.add_table(
      bytes_table("By component, at the peak of the step", "component", run.forecast.by_component));
}

void add_profile(HtmlPage& page, const StepProfile& profile) {
  page.add_heading("Time by operation");
  HtmlTable table{.caption = fmt::format("{} steps, {}", profile.recorded_steps(),
                                         format_value(profile.recorded_seconds(), Unit::kSeconds)),
                  .columns = {{"operation"},
                              {"calls", true},
                              {"time", true},
                              {"share", true},
                              {"GFLOP/s", true},
                              {"GB/s", true}}};
  for (const OpTime& op : profile.by_op()) {
    table.rows.push_back({op_name(op), format_count(op.calls), format_value(op.seconds, Unit::kSeconds),
                          format_value(op.seconds / profile.recorded_seconds(), Unit::kShare),
                          fmt::format("{:.1f}", op.flops / op.seconds / 1e9),
                          fmt::format("{:.1f}", op.bytes / op.seconds / 1e9)});
  }
  page.add_table(table);
}

void add_settings(HtmlPage& page, const RunView& run) {
  page.add_heading("Settings");
  HtmlTable arguments{.caption = "Arguments that differ from their defaults",
                      .columns = {{"argument"}, {"value"}, {"default"}}};
  for (const ArgumentSpec& spec : argument_table()) {
    if (spec.field.index() == 0) continue;
    const ArgumentValue value = argument_value(spec, run.arguments);
    if (value != spec.standard) {
      arguments.rows.push_back(
          {std::string(spec.name), argument_to_text(value), argument_to_text(spec.standard)});
    }
  }
  page.add_table(arguments);
  HtmlTable passes{.caption = "Passes, in the order in which they ran",
                   .columns = {{"pass"}, {"time", true}, {"operations afterwards", true}}};
  for (const PassRecord& pass : run.session.passes()) {
    passes.rows.push_back({pass.name, format_value(pass.seconds, Unit::kSeconds), format_count(pass.nodes)});
  }
  page.add_table(passes);
}

// "Running: step 42 of 100, about 3 min 20 s of steps to go."
std::string status_text(const RunView& run) {
  const std::string steps =
      fmt::format("step {} of {}", format_count(run.state.global_step), format_count(run.state.max_steps));
  switch (run.status) {
    case RunStatus::kRunning: {
      const double left = static_cast<double>(run.state.max_steps - run.state.global_step) * run.step_seconds;
      return fmt::format(
          "Running: {}{}", steps,
          left > 0 ? fmt::format(", about {} of steps to go", format_value(left, Unit::kSeconds)) : "");
    }
    case RunStatus::kEnded:
      return fmt::format("Ended: {}{}{}", steps, run.end_reason.empty() ? "" : "; ", run.end_reason);
    case RunStatus::kStopped:
      return fmt::format("Stopped after {}; --resume_from_checkpoint goes on", steps);
    case RunStatus::kFailed:
      return fmt::format("Broken off by an error after {}", steps);
  }
  return steps;
}

using Facts = std::vector<std::pair<std::string, std::string>>;

// Of several ranks: what a rank sends, and at the end who waited for whom (rank_waits.h).
void add_rank_facts(Facts& facts, const RunView& run) {
  if (run.forecast.world_size == 1) return;
  facts.emplace_back("ranks", format_count(run.forecast.world_size));
  facts.emplace_back("a rank sends in a step",
                     format_value(static_cast<double>(run.forecast.sent_bytes_in_step), Unit::kBytes));
  if (const StepTraffic traffic = step_traffic(run.session); traffic.has_several_hosts) {
    facts.emplace_back("ranks of a host", format_count(traffic.ranks_of_host));
    facts.emplace_back(fmt::format("rank {} sends within its host", traffic.rank),
                       format_value(traffic.within_host_bytes(), Unit::kBytes));
    facts.emplace_back(fmt::format("rank {} sends between hosts, most of all", traffic.rank),
                       format_value(traffic.between_hosts_bytes(), Unit::kBytes));
  }
  const auto number = [&](const char* key) -> std::optional<double> {
    const auto found = run.metrics.find(key);
    return found == run.metrics.end() ? std::nullopt : std::optional(metric_number(found->second));
  };
  if (const auto waited = number("train_rank_wait_share"))
    facts.emplace_back("waiting for messages, rank 0", format_value(*waited, Unit::kShare));
  const auto slowest = number("train_slowest_rank"), cost = number("train_slowest_rank_cost_share");
  if (slowest && cost) {
    facts.emplace_back("slowest rank", fmt::format("{:.0f}, another waited {} longer", *slowest,
                                                   format_value(*cost, Unit::kShare)));
  }
}

void add_facts(HtmlPage& page, const RunView& run) {
  Facts facts;
  for (const std::string& name : std::set<std::string>{"eval_accuracy", "eval_loss", main_metric(run)}) {
    if (!has_entries(run, name)) continue;
    facts.emplace_back(name == "eval_loss" ? "evaluation loss" : readable(name),
                       format_value(*last_value(run.state, name), Unit::kNumber));
  }
  if (const std::optional<BestEvaluation> best = best_evaluation(run)) {
    facts.emplace_back("best step", fmt::format("{}: {} {}", format_count(best->step), readable(best->metric),
                                                format_value(best->value, Unit::kNumber)));
  }
  const auto add = [&](const char* label, const char* key, Unit unit) {
    const auto found = run.metrics.find(key);
    if (found != run.metrics.end())
      facts.emplace_back(label, format_value(metric_number(found->second), unit));
  };
  add("training loss", "train_loss", Unit::kNumber);
  add("time", "train_runtime", Unit::kSeconds);
  add("samples a second", "train_samples_per_second", Unit::kNumber);
  add("waiting for data", "train_data_wait_share", Unit::kShare);
  add("peak of the process", "memory_process_measured_bytes", Unit::kBytes);
  facts.emplace_back("predicted peak",
                     format_value(static_cast<double>(run.forecast.process_peak_bytes()), Unit::kBytes));
  add_rank_facts(facts, run);
  page.add_facts(facts);
}

}  // namespace

std::string html_report(const RunView& run) {
  const std::string& name = run.arguments.run_name;
  HtmlPage page(name.empty() ? run.arguments.output_dir : name,
                fmt::format("{} parameters, {} trained", format_count(run.forecast.parameters),
                            format_count(run.forecast.trainable_parameters)));
  page.add_status(status_text(run), run.status == RunStatus::kRunning);
  add_facts(page, run);
  add_training(page, run);
  add_evaluation(page, run);
  if (run.evaluation != nullptr) add_classes(page, *run.evaluation);
  add_memory(page, run);
  if (run.profile != nullptr && run.profile->recorded_steps() > 0) add_profile(page, *run.profile);
  add_settings(page, run);
  return page.html();
}

}  // namespace shoehorn
