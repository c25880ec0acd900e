#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "arguments/command_options.h"
#include "base/error.h"
#include "base/processors.h"
#include "cli/commands.h"
#include "cli/result_file.h"
#include "cli/stopped_bench.h"
#include "lab/parallel_runs.h"
#include "lab/scratch_directory.h"

namespace shoehorn {

namespace {

using enum ArgumentKind;

constexpr const char* kParallelIntroduction =
    R"(One training on ranks of this host, in turns: by one process with the threads of all, by DataParallel (dp), by ranks
that each update (ddp) and by ranks that share the memory (zero_1 to zero_3, which are --zero_stage), over the host's
memory and over slower links, whose time messages then take. The effective batch is the same. Give the model, the files
and other flags of train, of a rank; --max_steps and a small --per_device_train_batch_size keep it short. Steps are
predicted where `shoehorn calibrate` and `shoehorn topo` have measured what plan goes by.

  shoehorn bench parallel --model_type gpt2 --tokenizer_name DIR --task causal-lm --train_file corpus.txt
      --max_steps 20 --per_device_train_batch_size 4 [FLAGS]
)";

// Flags of train that the command sets itself.
constexpr std::array<std::string_view, 7> kSetByParallel = {
    "output_dir", "parallel_mode", "zero_stage", "save_strategy", "report_to", "world_size", "profile"};

std::vector<ArgumentChoice> mode_choices() {
  std::vector<ArgumentChoice> choices;
  for (const std::string_view mode : kParallelModes) choices.push_back({mode});
  return choices;
}

const std::vector<ArgumentSpec>& bench_parallel_rows() {
  static const std::vector<ArgumentSpec> rows = {
      {.name = "nproc_per_node",
       .kind = kInteger,
       .standard = int64_t{2},
       .help = "ranks, each with its share of the processors unless --num_threads says how many threads"},
      {.name = "modes",
       .kind = kList,
       .standard = std::vector<std::string>{kParallelModes.begin(), kParallelModes.end()},
       .help =
           "ways in which ranks share a step, besides the one process; dp is left out where ranks accumulate",
       .choices = mode_choices()},
      {.name = "link_bandwidths",
       .kind = kList,
       .standard = std::vector<std::string>{"1"},
       .value = "GBIT",
       .help = "slower links than this host's memory, in Gbit/s; none for no other"},
      {.name = "link_latency",
       .kind = kNumber,
       .standard = 100.0,
       .value = "MICROSECONDS",
       .help = "what each message takes besides over these"},
      {.name = "repeats", .kind = kInteger, .standard = int64_t{3}, .help = "runs of a setting"},
      result_json_row(),
      result_json_file_row(),
  };
  return rows;
}

double bandwidth_of(const std::string& gbit) {
  double value = 0;
  const auto [end, error] = std::from_chars(gbit.data(), gbit.data() + gbit.size(), value);
  if (error != std::errc() || end != gbit.data() + gbit.size() || !is_link_bandwidth(value))
    throw user_error("[--link_bandwidths] expected Gbit/s, more than 0, got '{}'", gbit);
  return value;
}

ParallelOptions parallel_options(const CommandOptions& given, const ScratchDirectory& scratch) {
  ParallelOptions options;
  options.directory = scratch.path();
  options.flags = given.rest;
  options.ranks = given.integer_at_least("nproc_per_node", 2, "; one has nobody to share with");
  options.repeats = given.integer_at_least("repeats", 1);
  options.modes = given.list("modes");
  const double latency = given.number("link_latency");
  if (!(latency >= 0)) throw user_error("[--link_latency] expected 0 µs or more, got {:g}", latency);
  const std::vector<std::string> bandwidths = given.list("link_bandwidths");
  if (bandwidths != std::vector<std::string>{"none"}) {
    for (const std::string& gbit : bandwidths) options.links.push_back(link_of(bandwidth_of(gbit), latency));
  }
  const ParsedArguments parsed = parse_arguments(Command::kTrain, options.flags, options.ranks);
  refuse_set_rows(parsed, kSetByParallel, "bench parallel sets it");
  options.accumulation = parsed.arguments.gradient_accumulation_steps;
  if (const std::string left_out = left_out_text(options); given.is_given("modes") && !left_out.empty())
    throw user_error("[--modes] expected ways that can run, but {}", left_out);
  options.threads =
      parsed.arguments.num_threads.value_or(std::max<int64_t>(1, processors().usable() / options.ranks));
  return options;
}

std::string settings_so_far(const ParallelResults& results) {
  int64_t runs = 0;
  for (const ParallelResult& result : results.settings) runs += std::ssize(result.runs);
  return fmt::format("the result is of the runs so far, {} of {}", runs,
                     results.options.repeats * std::ssize(results.settings));
}

}  // namespace

CommandHelp help_of_bench_parallel() {
  return {.name = "bench parallel",
          .introduction = kParallelIntroduction,
          .own_rows = bench_parallel_rows(),
          .table = Command::kTrain,
          .set_by_itself = {kSetByParallel.begin(), kSetByParallel.end()}};
}

int run_bench_parallel(const std::vector<std::string>& words) {
  const CommandOptions given = parse_result_options(bench_parallel_rows(), words, OtherWords::kTableFlags);
  const StopSignals signals;
  const ScratchDirectory scratch;
  const ParallelOptions options = parallel_options(given, scratch);
  prepare_result_files(given);
  const auto write_files = [&given](const ParallelResults& so_far) {
    write_result_file(given, to_json(so_far));
  };
  const auto print = [&given](const ParallelResults& results) {
    write_result(given, to_json(results), format_parallel(results));
  };
  const ParallelResults results = walk_until_stopped<ParallelResults>(
      [&](const auto& on_result) { return walk_parallel(options, show_progress("parallel"), on_result); },
      write_files, print, settings_so_far);
  return exit_code_of(results);
}

}  // namespace shoehorn
