#include "lab/ladder_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lab/machine_text.h"

namespace shoehorn {

namespace {

std::string mib(int64_t bytes) {
  return bytes > 0 ? fmt::format("{:.0f}", static_cast<double>(bytes) / 0x1p20) : kNothing;
}

double memory_of(const StepRun& run) {
  return static_cast<double>(run.memory.training_bytes);
}

// What the Trainer ran where that is not the rung; empty where it is.
std::string deviation(const RungResult& rung) {
  std::vector<std::string> parts;
  if (!rung.theirs->ran.empty()) parts.push_back(rung.theirs->ran);
  const std::vector<std::string> left_out = peer_flags(rung.rung.flags).left_out;
  if (!left_out.empty()) parts.push_back(fmt::format("without {}", fmt::join(left_out, " ")));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string first_step(const StepRun& run) {
  return run.first_step_seconds > 0 ? fmt::format("{:.1f}", run.first_step_seconds) : kNothing;
}

std::vector<TextColumn> columns_of(const LadderResult& result) {
  std::vector<TextColumn> columns = {{"setting"},           {"samples/s", true}, {"memory MiB", true},
                                     {"predicted", true},   {"time x", true},    {"memory x", true},
                                     {"first step s", true}};
  if (result.options.has_peer()) {
    for (const char* title : {"HF samples/s", "HF MiB", "HF first step s", "speed vs HF", "MiB vs HF"})
      columns.push_back({title, true});
  }
  return columns;
}

std::vector<std::string> row_of(const RungResult& rung, const RungResult* reference) {
  std::vector<std::string> row = {rung.rung.setting + (rung.same_as.empty() ? "" : " (=)")};
  const StepRun& ours = rung.ours;
  if (ours.is_measured()) {
    row.push_back(fmt::format("{:.3f}", ours.samples_per_second));
    row.push_back(mib(ours.memory.training_bytes));
    row.push_back(mib(rung.predicted_bytes()));
    row.push_back(fmt::format("{:.2f}", ours.step_seconds / reference->ours.step_seconds));
    row.push_back(fmt::format("{:.2f}", memory_of(ours) / memory_of(reference->ours)));
    row.push_back(first_step(ours));
  } else {
    row[0] += fmt::format(" ({})", outcome_text(ours.outcome));
    row.insert(row.end(), {kNothing, kNothing, mib(rung.predicted_bytes()), kNothing, kNothing, kNothing});
  }
  if (!rung.theirs) return row;
  const StepRun& theirs = *rung.theirs;
  if (!theirs.is_measured()) {
    row.push_back(outcome_text(theirs.outcome));
    row.insert(row.end(), 4, kNothing);
    return row;
  }
  row.push_back(fmt::format("{:.3f}{}", theirs.samples_per_second, deviation(rung).empty() ? "" : "*"));
  row.push_back(mib(theirs.memory.training_bytes));
  row.push_back(first_step(theirs));
  if (ours.is_measured()) {
    row.push_back(fmt::format("x{:.2f}", ours.samples_per_second / theirs.samples_per_second));
    row.push_back(fmt::format("x{:.2f}", memory_of(ours) / memory_of(theirs)));
  } else {
    row.insert(row.end(), {kNothing, kNothing});
  }
  return row;
}

void add_stages(std::vector<std::string>& row, const StepRun& run) {
  for (const int64_t bytes :
       {run.memory.process_bytes, run.memory.with_weights_bytes, run.memory.training_bytes})
    row.push_back(run.is_measured() ? mib(bytes) : kNothing);
}

nlohmann::ordered_json to_json(const RungResult& rung, const RungResult* reference) {
  nlohmann::ordered_json json = {
      {"name", rung.rung.name}, {"setting", rung.rung.setting}, {"flags", rung.rung.flags}};
  if (rung.rung.guide)
    json["guide"] = {{"samples_per_second", rung.rung.guide->samples_per_second},
                     {"memory_mib", rung.rung.guide->memory_mib}};
  if (rung.plan.peak_bytes > 0) {
    json["plan"] = {{"peak_bytes", rung.plan.peak_bytes},
                    {"budget_bytes", rung.plan.budget_bytes},
                    {"fits", rung.plan.outcome == RunOutcome::kMeasured}};
  }
  if (!rung.plan.program.empty()) json["program"] = rung.plan.program;
  if (!rung.same_as.empty()) json["same_program_as"] = rung.same_as;
  json["ours"] = to_json(rung.ours);
  if (rung.ours.is_measured()) {
    json["ours"]["memory"]["planned"] = nlohmann::ordered_json::array({"with_weights_bytes"});
    json["ours"]["relative_time"] = rung.ours.step_seconds / reference->ours.step_seconds;
    json["ours"]["relative_memory"] = memory_of(rung.ours) / memory_of(reference->ours);
  }
  if (!rung.theirs) return json;
  json["theirs"] = to_json(*rung.theirs);
  json["theirs"]["left_out"] = peer_flags(rung.rung.flags).left_out;
  if (rung.ours.is_measured() && rung.theirs->is_measured()) {
    json["ratio"] = {{"samples_per_second", rung.ours.samples_per_second / rung.theirs->samples_per_second},
                     {"memory", memory_of(rung.ours) / memory_of(*rung.theirs)}};
  }
  return json;
}

// The rungs that cannot be told apart from the fastest one; empty if there are none.
std::string alike_text(const LadderResult& result) {
  const RungResult* fastest = nullptr;
  for (const RungResult& rung : result.rungs) {
    if (!rung.ours.is_measured()) continue;
    if (fastest == nullptr || rung.ours.step_seconds < fastest->ours.step_seconds) fastest = &rung;
  }
  if (fastest == nullptr) return "";
  std::vector<std::string> alike;
  for (const RungResult& rung : result.rungs) {
    if (&rung == fastest || !rung.ours.is_measured() || !rung.same_as.empty()) continue;
    if (!can_tell_apart(interval_of(rung.ours), interval_of(fastest->ours)))
      alike.push_back(fmt::format("\"{}\"", rung.rung.setting));
  }
  if (alike.empty()) return "";
  return fmt::format("not told apart from the fastest, \"{}\", by these steps: {}", fastest->rung.setting,
                     fmt::join(alike, ", "));
}

}  // namespace

TextTable ladder_spreads(const LadderResult& result) {
  TextTable table{.columns = {{"spread of the steps"}, {"shoehorn"}}};
  if (result.options.has_peer()) table.columns.push_back({"HF"});
  const auto text = [&](const StepRun& run) {
    return run.is_measured() ? describe_spread(run, result.options.rounds.precision) : std::string(kNothing);
  };
  for (const RungResult& rung : result.rungs) {
    std::vector<std::string> row = {rung.rung.setting, text(rung.ours)};
    if (result.options.has_peer()) row.push_back(text(rung.theirs.value_or(StepRun{})));
    table.rows.push_back(std::move(row));
  }
  return table;
}

TextTable ladder_table(const LadderResult& result) {
  TextTable table{columns_of(result), {}};
  for (const RungResult& rung : result.rungs) table.rows.push_back(row_of(rung, reference_rung(result)));
  return table;
}

TextTable ladder_stages(const LadderResult& result) {
  TextTable table{
      .columns = {
          {"memory MiB by stage"}, {"process", true}, {"+ weights, planned", true}, {"+ training", true}}};
  if (result.options.has_peer()) {
    for (const char* title : {"HF process", "HF + weights", "HF + training"})
      table.columns.push_back({title, true});
  }
  for (const RungResult& rung : result.rungs) {
    std::vector<std::string> row = {rung.rung.setting};
    add_stages(row, rung.ours);
    if (result.options.has_peer()) add_stages(row, rung.theirs.value_or(StepRun{}));
    table.rows.push_back(std::move(row));
  }
  return table;
}

TextTable ladder_flags(const LadderResult& result) {
  std::vector<const Rung*> rungs;
  for (const RungResult& rung : result.rungs) rungs.push_back(&rung.rung);
  return flag_table(rungs, "flags of train, plan and bench step");
}

std::string ladder_title(const LadderResult& result) {
  const LadderOptions& options = result.options;
  return fmt::format("{}, random tokens, sequences of {}, effective batch {}; {}; {}", options.model,
                     options.sequence_length, kLadderEffectiveBatch, counted_steps(options.steps),
                     format_machine(result.machine));
}

std::vector<std::string> ladder_remarks(const LadderResult& result) {
  std::vector<std::string> lines;
  if (const RungResult* reference = reference_rung(result); reference != nullptr) {
    lines.push_back(
        fmt::format("time x and memory x: how many times those of \"{}\"", reference->rung.setting));
    lines.push_back(fmt::format("measured in turns, {}", describe(result.options.rounds)));
    lines.push_back("first step s: from the start of the process to the end of its first step");
    lines.push_back(
        "stages: shoehorn reserves everything at once, so that its process is the measured peak less the "
        "arenas, and its weights are as planned");
  }
  for (const RungResult& rung : result.rungs) {
    if (!rung.same_as.empty())
      lines.push_back(fmt::format("(=) \"{}\" is the same program as \"{}\": one measurement for both",
                                  rung.rung.setting, rung.same_as));
  }
  if (const std::string text = alike_text(result); !text.empty()) lines.push_back(text);
  std::vector<const Rung*> measured;
  for (const RungResult& rung : result.rungs) {
    if (rung.ours.is_measured()) measured.push_back(&rung.rung);
  }
  for (std::string& line : half_product_remarks(measured)) lines.push_back(std::move(line));
  if (const std::vector<std::string> left_out = result.options.left_out(); !left_out.empty())
    lines.push_back(fmt::format("rungs not asked for: {}", fmt::join(left_out, ", ")));
  return lines;
}

std::vector<LadderNote> ladder_notes(const LadderResult& result) {
  std::vector<LadderNote> notes;
  for (const RungResult& rung : result.rungs) {
    if (!rung.ours.is_measured()) notes.push_back({rung.rung.setting, "shoehorn", rung.ours.reason});
  }
  for (const RungResult& rung : result.rungs) {
    if (!rung.theirs) continue;
    const std::string text = rung.theirs->is_measured() ? deviation(rung) : rung.theirs->reason;
    if (!text.empty()) notes.push_back({rung.rung.setting, "huggingface", text});
  }
  return notes;
}

std::string format_ladder(const LadderResult& result) {
  std::string text = ladder_title(result) + "\n" + format_table(ladder_table(result)) +
                     format_table(ladder_spreads(result)) + format_table(ladder_stages(result));
  for (const std::string& line : ladder_remarks(result)) text += line + "\n";
  const std::vector<LadderNote> notes = ladder_notes(result);
  if (!notes.empty()) text += "Not run, or (*) run otherwise\n";
  for (const LadderNote& note : notes)
    text += fmt::format("  {}, {}: {}\n", note.setting, note.who, note.text);
  return text + format_table(ladder_flags(result));
}

nlohmann::ordered_json to_json(const LadderResult& result) {
  const LadderOptions& options = result.options;
  nlohmann::ordered_json json = {{"model", options.model},
                                 {"sequence_length", options.sequence_length},
                                 {"effective_batch_size", kLadderEffectiveBatch},
                                 {"steps", options.steps},
                                 {"repeats", processes_of(result)},
                                 {"median_error", options.rounds.precision},
                                 {"max_repeats", options.rounds.most},
                                 {"max_seconds", options.rounds.most_seconds}};
  json["machine"] = to_json(result.machine);
  json["left_out"] = options.left_out();
  nlohmann::ordered_json rungs = nlohmann::ordered_json::array();
  for (const RungResult& rung : result.rungs) rungs.push_back(to_json(rung, reference_rung(result)));
  json["rungs"] = std::move(rungs);
  return json;
}

}  // namespace shoehorn
