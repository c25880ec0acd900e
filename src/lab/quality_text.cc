#include "lab/quality_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/plural.h"
#include "lab/machine_text.h"

namespace shoehorn {

namespace {

constexpr double kMiB = 0x1p20;

std::string agreement_text(const std::optional<Agreement>& agreement) {
  if (!agreement) return "";
  return agreement->is_every_bit ? "every bit" : fmt::format("{:.0e}", agreement->first_steps);
}

std::vector<std::string> row_of(const QualityResults& results, const QualityResult& rung) {
  std::vector<std::string> row = {rung.rung.setting};
  if (!rung.is_measured()) {
    row.insert(row.end(), 9, kNothing);
    row.insert(row.end(), {"", verdict_of(results, rung)});
    return row;
  }
  const Spread accuracy = rung.of(&TrainingRun::eval_accuracy);
  const double seconds = rung.of(&TrainingRun::train_seconds).median;
  const double bytes = rung.median_bytes(&TrainingRun::measured_bytes);
  row.push_back(fmt::format("{:.4f}", accuracy.mean));
  row.push_back(accuracy.count > 1 ? fmt::format("{:.4f}", accuracy.deviation) : kNothing);
  row.push_back(fmt::format("{:.4f}", rung.of(&TrainingRun::eval_loss).mean));
  row.push_back(fmt::format("{:.1f}", seconds));
  row.push_back(fmt::format("{:.1f}", rung.of(&TrainingRun::samples_per_second).median));
  row.push_back(fmt::format("{:.0f}", bytes / kMiB));
  row.push_back(fmt::format("{:.0f}", rung.median_bytes(&TrainingRun::predicted_bytes) / kMiB));
  if (const QualityResult& reference = results.reference(); reference.is_measured()) {
    row.push_back(fmt::format("{:.2f}", seconds / reference.of(&TrainingRun::train_seconds).median));
    row.push_back(fmt::format("{:.2f}", bytes / reference.median_bytes(&TrainingRun::measured_bytes)));
  } else {
    row.insert(row.end(), {kNothing, kNothing});
  }
  row.push_back(agreement_text(agreement_of(results, rung)));
  row.push_back(verdict_of(results, rung));
  return row;
}

std::string spread_text(const char* what, const Spread& spread) {
  return fmt::format("{} {:.4f} to {:.4f}, standard deviation {:.4f}", what, spread.low, spread.high,
                     spread.deviation);
}

nlohmann::ordered_json to_json(const Spread& spread) {
  return {{"mean", spread.mean}, {"deviation", spread.deviation}, {"low", spread.low}, {"high", spread.high}};
}

nlohmann::ordered_json to_json(const TrainingRun& run) {
  nlohmann::ordered_json json = {{"seed", run.seed}, {"outcome", outcome_text(run.outcome)}};
  if (!run.is_measured()) {
    json["reason"] = run.reason;
    return json;
  }
  json["eval_accuracy"] = run.eval_accuracy;
  json["eval_loss"] = run.eval_loss;
  json["train_loss"] = run.train_loss;
  json["train_runtime"] = run.train_seconds;
  json["train_samples_per_second"] = run.samples_per_second;
  json["train_data_wait_share"] = run.data_wait_share;
  json["memory_process_measured_bytes"] = run.measured_bytes;
  json["memory_process_predicted_bytes"] = run.predicted_bytes;
  json["step_losses"] = run.step_losses;
  return json;
}

nlohmann::ordered_json to_json(const QualityResults& results, const QualityResult& rung) {
  nlohmann::ordered_json json = {
      {"name", rung.rung.name}, {"setting", rung.rung.setting}, {"flags", rung.rung.flags}};
  json["runs"] = nlohmann::ordered_json::array();
  for (const TrainingRun& run : rung.runs) json["runs"].push_back(to_json(run));
  json["verdict"] = verdict_of(results, rung);
  if (!rung.is_measured()) return json;
  json["eval_accuracy"] = to_json(rung.of(&TrainingRun::eval_accuracy));
  json["eval_loss"] = to_json(rung.of(&TrainingRun::eval_loss));
  json["train_runtime"] = rung.of(&TrainingRun::train_seconds).median;
  json["memory_process_measured_bytes"] = rung.median_bytes(&TrainingRun::measured_bytes);
  if (results.reference().is_measured()) json["loses_accuracy"] = loses_accuracy(results, rung);
  if (const auto agreement = agreement_of(results, rung)) {
    json["equals"] = {{"name", rung.rung.equals},
                      {"promise", rung.rung.promise == Promise::kEveryBit ? "every bit" : "rounding"},
                      {"is_every_bit", agreement->is_every_bit},
                      {"first_steps", agreement->first_steps},
                      {"is_kept", agreement->is_kept}};
  }
  return json;
}

}  // namespace

TextTable quality_table(const QualityResults& results) {
  TextTable table{.columns = {{"setting"},
                              {"accuracy", true},
                              {"deviation", true},
                              {"eval loss", true},
                              {"time s", true},
                              {"samples/s", true},
                              {"memory MiB", true},
                              {"predicted", true},
                              {"time x", true},
                              {"memory x", true},
                              {"equals"},
                              {"verdict"}}};
  for (const QualityResult& rung : results.rungs) table.rows.push_back(row_of(results, rung));
  return table;
}

TextTable quality_flags(const QualityResults& results) {
  std::vector<const Rung*> rungs;
  for (const QualityResult& rung : results.rungs) rungs.push_back(&rung.rung);
  return flag_table(rungs, "flags of train, behind those that all share");
}

std::string quality_title(const QualityResults& results) {
  const QualityOptions& options = results.options;
  return fmt::format("{}; {} of the reference, {} of other settings; {}", options.title,
                     plural(options.seeds, "seed"), std::min(options.seeds, options.rung_seeds),
                     format_machine(results.machine));
}

std::vector<std::string> quality_remarks(const QualityResults& results) {
  std::vector<std::string> lines;
  const QualityResult& reference = results.reference();
  if (reference.is_measured()) {
    lines.push_back(fmt::format("{}: {}; {}", reference.rung.setting,
                                spread_text("accuracy", reference.of(&TrainingRun::eval_accuracy)),
                                spread_text("evaluation loss", reference.of(&TrainingRun::eval_loss))));
    lines.push_back(
        "loses accuracy: the mean is lower than the reference's by more than twice the pooled standard error "
        "of the two, and lower than the reference's lowest run");
    lines.push_back(
        "accuracy and evaluation loss are means, time and memory medians over the seeds; time x and memory x "
        "are how many times the reference's");
  }
  std::vector<const Rung*> measured;
  for (const QualityResult& rung : results.rungs) {
    if (rung.is_measured()) measured.push_back(&rung.rung);
  }
  for (std::string& line : half_product_remarks(measured)) lines.push_back(std::move(line));
  for (const QualityResult& rung : results.rungs) {
    const auto agreement = agreement_of(results, rung);
    if (!agreement) continue;
    const std::string& other = results.named(rung.rung.equals).rung.setting;
    lines.push_back(agreement->is_every_bit
                        ? fmt::format("{} equals {} in every bit of its losses", rung.rung.setting, other)
                        : fmt::format("{} equals {} to {:.1e} of the loss in the first {} steps{}",
                                      rung.rung.setting, other, agreement->first_steps, kFirstSteps,
                                      agreement->is_kept ? "" : ", which is more than rounding"));
  }
  for (const QualityResult& rung : results.rungs) {
    if (const TrainingRun* run = rung.unmeasured(); run != nullptr)
      lines.push_back(fmt::format("{}, seed {}: {}", rung.rung.setting, run->seed, run->reason));
  }
  return lines;
}

std::string format_quality(const QualityResults& results) {
  std::string text = quality_title(results) + "\n" + format_table(quality_table(results));
  for (const std::string& line : quality_remarks(results)) text += line + "\n";
  text += format_table(quality_flags(results));
  return text + fmt::format("all share: {}\n", fmt::join(results.options.flags, " "));
}

nlohmann::ordered_json to_json(const QualityResults& results) {
  const QualityOptions& options = results.options;
  nlohmann::ordered_json json = {
      {"task", options.title},  {"flags", options.flags},           {"first_seed", options.first_seed},
      {"seeds", options.seeds}, {"rung_seeds", options.rung_seeds}, {"machine", to_json(results.machine)}};
  json["rungs"] = nlohmann::ordered_json::array();
  for (const QualityResult& rung : results.rungs) json["rungs"].push_back(to_json(results, rung));
  return json;
}

}  // namespace shoehorn
