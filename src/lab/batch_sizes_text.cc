#include "lab/batch_sizes_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "lab/machine_text.h"

namespace shoehorn {

namespace {

double mebibytes_of(int64_t bytes) {
  return static_cast<double>(bytes) / 0x1p20;
}

std::vector<std::string> row_of(const BatchSizeResult& size, bool is_best) {
  std::vector<std::string> row = {fmt::format("{}", size.batch_size), fmt::format("{}", size.tokens)};
  const StepRun& run = size.run;
  if (!run.is_measured()) {
    row.insert(row.end(), {"-", "-", "-", "-", fmt::format("{:.0f}", mebibytes_of(size.plan.peak_bytes)), "",
                           outcome_text(run.outcome)});
    return row;
  }
  row.push_back(fmt::format("{:.3f}", run.samples_per_second));
  row.push_back(fmt::format("{:.3f}", run.step_seconds));
  const MedianInterval interval = interval_of(run);
  row.push_back(fmt::format("{:.3f}–{:.3f}", interval.least, interval.most));
  row.push_back(fmt::format("{:.0f}", mebibytes_of(run.memory.training_bytes)));
  row.push_back(fmt::format("{:.0f}", mebibytes_of(run.predicted_bytes)));
  row.push_back(size.is_preferred ? "yes" : "");
  row.push_back(is_best ? "best" : "");
  return row;
}

std::vector<NamedSize> checked_sizes(const BatchSizesResult& result) {
  std::vector<NamedSize> sizes = result.options.model_sizes;
  for (const BatchSizeResult& size : result.sizes) {
    sizes.push_back(
        {fmt::format("{} x {} tokens", size.batch_size, result.options.sequence_length), size.tokens});
  }
  return sizes;
}

}  // namespace

std::string batch_sizes_title(const BatchSizesResult& result) {
  const BatchSizesOptions& options = result.options;
  return fmt::format("{}, sequences of {} tokens, by batch size; {}{}{}; {}", options.model,
                     options.sequence_length, counted_steps(options.steps), options.flags.empty() ? "" : "; ",
                     fmt::join(options.flags, " "), format_machine(options.machine));
}

TextTable batch_sizes_table(const BatchSizesResult& result) {
  TextTable table{.columns = {{"batch", true},
                              {"tokens", true},
                              {"samples/s", true},
                              {"step s", true},
                              {"fastest–slowest", true},
                              {"memory MiB", true},
                              {"predicted", true},
                              {"preferred"},
                              {""}}};
  const BatchSizeResult* best = result.best();
  for (const BatchSizeResult& size : result.sizes) table.rows.push_back(row_of(size, &size == best));
  return table;
}

TextTable batch_sizes_multiples(const BatchSizesResult& result) {
  return sizes_table(result.options.multiples, checked_sizes(result));
}

std::vector<std::string> batch_sizes_remarks(const BatchSizesResult& result) {
  const BatchSizesOptions& options = result.options;
  std::vector<std::string> lines;
  if (const BatchSizeResult* best = result.best(); best != nullptr) {
    lines.push_back(fmt::format("best: --per_device_train_batch_size {}, {:.3f} samples/s", best->batch_size,
                                best->run.samples_per_second));
  } else if (!result.is_complete) {
    lines.emplace_back("best: not known. Not all sizes are measured");
  } else if (const BatchSizeResult* fastest = result.fastest(); fastest != nullptr) {
    std::vector<std::string> names = {std::to_string(fastest->batch_size)};
    for (const BatchSizeResult* size : result.alike()) names.push_back(std::to_string(size->batch_size));
    lines.push_back(
        fmt::format("best: not known. The batches {} cannot be told apart by these steps; a calmer machine, "
                    "more --steps or a larger --max_repeats may tell",
                    fmt::join(names, ", ")));
  }
  for (const BatchSizeResult& size : result.sizes) {
    if (size.run.is_measured())
      lines.push_back(
          fmt::format("batch {}: {}", size.batch_size, describe_spread(size.run, options.rounds.precision)));
  }
  lines.push_back(fmt::format("measured in turns, {}", describe(options.rounds)));
  for (const BatchSizeResult& size : result.sizes) {
    if (!size.run.is_measured())
      lines.push_back(fmt::format("batch {}: {}", size.batch_size, size.run.reason));
  }
  lines.push_back(fmt::format("preferred here: tokens in multiples of {}; {}",
                              options.preferred_token_multiple, options.preferred_why));
  lines.push_back(quantisation_text(options.machine.threads));
  return lines;
}

std::string format_batch_sizes(const BatchSizesResult& result) {
  std::string text = batch_sizes_title(result) + "\n" + format_table(batch_sizes_table(result));
  for (const std::string& line : batch_sizes_remarks(result)) text += line + "\n";
  return text + format_table(multiples_table(result.options.multiples)) +
         format_table(batch_sizes_multiples(result));
}

nlohmann::ordered_json to_json(const BatchSizesResult& result) {
  const BatchSizesOptions& options = result.options;
  nlohmann::ordered_json json = {
      {"model", options.model},
      {"flags", options.flags},
      {"sequence_length", options.sequence_length},
      {"steps", options.steps},
      {"median_error", options.rounds.precision},
      {"repeats", options.rounds.least},
      {"max_repeats", options.rounds.most},
      {"max_seconds", options.rounds.most_seconds},
      {"machine", to_json(options.machine)},
      {"preferred", {{"tokens_multiple", options.preferred_token_multiple}, {"why", options.preferred_why}}},
      {"hardware_multiples", multiples_to_json(options.multiples)},
      {"checked_sizes", sizes_to_json(options.multiples, checked_sizes(result))}};
  nlohmann::ordered_json sizes = nlohmann::ordered_json::array();
  for (const BatchSizeResult& size : result.sizes) {
    nlohmann::ordered_json entry = {{"batch_size", size.batch_size},
                                    {"tokens", size.tokens},
                                    {"is_preferred", size.is_preferred},
                                    {"planned_bytes", size.plan.peak_bytes},
                                    {"budget_bytes", size.plan.budget_bytes}};
    entry.update(to_json(size.run));
    sizes.push_back(std::move(entry));
  }
  json["sizes"] = std::move(sizes);
  const BatchSizeResult* best = result.best();
  json["best_batch_size"] =
      best == nullptr ? nlohmann::ordered_json() : nlohmann::ordered_json(best->batch_size);
  json["not_told_apart"] = nlohmann::ordered_json::array();
  for (const BatchSizeResult* size : result.alike()) json["not_told_apart"].push_back(size->batch_size);
  return json;
}

}  // namespace shoehorn
