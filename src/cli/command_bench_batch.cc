#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "arguments/command_options.h"
#include "base/error.h"
#include "base/stop_request.h"
#include "cli/commands.h"
#include "cli/model_source.h"
#include "cli/result_file.h"
#include "cli/round_options.h"
#include "cli/stopped_bench.h"
#include "exec/backend/thread_count.h"
#include "exec/backends.h"
#include "io/file.h"
#include "lab/batch_sizes.h"
#include "lab/batch_sizes_page.h"
#include "lab/batch_sizes_text.h"
#include "lab/random_tokens.h"
#include "model/batch_inputs.h"
#include "models/registry.h"

namespace shoehorn {

namespace {

using enum ArgumentKind;

const std::vector<ArgumentSpec>& bench_batch_option_rows() {
  // Rows hold views.
  static const std::string model_help =
      fmt::format("{}, or a directory with config.json", fmt::join(shape_names(), ", "));
  static const std::vector<ArgumentSpec> rows = {
      {.name = "model_name_or_path",
       .kind = kText,
       .standard = std::string(kStepShape),
       .value = "DIR",
       .help = model_help,
       .aliases = {"model"}},
      {.name = "max", .kind = kInteger, .standard = int64_t{64}, .help = "largest batch that is tried"},
      {.name = "steps",
       .kind = kInteger,
       .standard = int64_t{4},
       .help = "optimizer steps of a process; the first does not count"},
      result_json_row(),
      result_json_file_row(),
      result_report_row(),
  };
  return rows;
}

// The rows above, and those of the rounds.
const std::vector<ArgumentSpec>& bench_batch_rows() {
  static const std::vector<ArgumentSpec> rows = [] {
    std::vector<ArgumentSpec> all = bench_batch_option_rows();
    const std::vector<ArgumentSpec> more = round_rows(BatchSizesOptions().rounds);
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return rows;
}

// What the kernels of this machine like, for these products.
void say_what_is_liked(BatchSizesOptions& options, const TrainingArguments& args) {
  const DType operands = args.fp16 ? DType::kF16 : args.bf16 ? DType::kBF16 : DType::kF32;
  const std::unique_ptr<Backend> backend = make_backend();
  options.machine = backend->machine();
  options.multiples = hardware_multiples(operands, options.machine);
  const int64_t panels = backend->rows_of_full_tiles(operands);
  options.preferred_token_multiple = std::lcm(panels, kTokenMultiple);
  options.preferred_why =
      panels > 1
          ? fmt::format("whole panels of the products, with {} on this processor", options.machine.products)
          : "micro-batches are filled up to such a multiple with tokens that belong to no sequence";
}

BatchSizesOptions batch_sizes_options(const CommandOptions& given) {
  BatchSizesOptions options;
  options.model = given.text("model_name_or_path");
  options.flags = given.rest;
  options.most = given.integer("max");
  options.steps = given.integer("steps");
  options.rounds = round_limits(given);
  if (options.most < 1) throw user_error("[--max] expected 1 or more, got {}", options.most);
  if (options.steps < 2)
    throw user_error("[--steps] expected 2 or more, got {}; the first one does not count", options.steps);
  std::vector<std::string> words = {"--model", options.model};
  words.insert(words.end(), given.rest.begin(), given.rest.end());
  const ParsedArguments parsed = parse_arguments(Command::kBenchBatch, words);
  use_threads(parsed.arguments.num_threads);
  constexpr std::string_view kTried[] = {"per_device_train_batch_size", "effective_batch_size"};
  refuse_set_rows(parsed, kTried, "bench batch tries them");
  if (parsed.gives("max_steps"))
    throw user_error("[--max_steps] expected no value, got {}; give --steps", parsed.arguments.max_steps);
  refuse_batch_size_ramp(parsed.arguments);
  const ModelSource source = open_model(options.model, {}, true, false);
  options.model_sizes = source.model->product_sizes();
  options.sequence_length = random_length(parsed, *source.model);
  say_what_is_liked(options, parsed.arguments);
  return options;
}

std::string sizes_so_far(const BatchSizesResult& result) {
  return fmt::format("the result is of the batch sizes so far, up to {}", result.sizes.back().batch_size);
}

}  // namespace

CommandHelp help_of_bench_batch() {
  return {.name = "bench batch",
          .introduction =
              "Throughput and memory of the training step with 1, 2, 4, … sequences in a micro-batch,\n"
              "and which of the model's sizes are multiples that the hardware likes.\n\n"
              "  shoehorn bench batch --model_name_or_path DIR [FLAGS]\n",
          .own_rows = bench_batch_rows(),
          .table = Command::kBenchBatch};
}

int run_bench_batch(const std::vector<std::string>& words) {
  const CommandOptions given = parse_result_options(bench_batch_rows(), words, OtherWords::kTableFlags);
  const BatchSizesOptions options = batch_sizes_options(given);
  prepare_result_files(given);
  const StopSignals signals;
  const auto write_files = [&given](const BatchSizesResult& so_far) {
    write_report(given, [&] { return batch_sizes_page(so_far); });
    write_result_file(given, to_json(so_far));
  };
  const auto print = [&given](const BatchSizesResult& result) {
    write_result(given, to_json(result), format_batch_sizes(result));
  };
  const BatchSizesResult result = walk_until_stopped<BatchSizesResult>(
      [&](const auto& on_result) {
        return measure_batch_sizes(options, show_progress("batch sizes"), on_result);
      },
      write_files, print, sizes_so_far);
  return exit_code_of(result);
}

}  // namespace shoehorn
