#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "arguments/command_options.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/result_file.h"
#include "cli/round_options.h"
#include "cli/stopped_bench.h"
#include "exec/backend/thread_count.h"
#include "io/file.h"
#include "io/user_cache.h"
#include "lab/ladder.h"
#include "lab/ladder_page.h"
#include "lab/ladder_text.h"
#include "models/registry.h"

namespace shoehorn {

namespace {

using enum ArgumentKind;

// With --quick: enough steps for a stable median in one process on a calm machine, and no long wait on another.
constexpr int64_t kQuickSteps = 6;
constexpr double kQuickSeconds = 5;

constexpr const char* kLadderIntroduction =
    R"(The settings of the efficient-training guides on this machine, each in a process of its own: random tokens,
labels 0 and 1 or the next token, an effective batch of 4. A setting that does not fit, or that this
version lacks, is shown as such.
Settings with 8-bit AdamW say which bits the states of embeddings have: 8 in the guides' figures, 32 in the Trainer.

  shoehorn bench ladder [FLAGS]
)";

const std::vector<ArgumentSpec>& bench_ladder_option_rows() {
  // Rows hold views.
  static const std::string model_help =
      fmt::format("{}, or a directory with config.json", fmt::join(shape_names(), ", "));
  static const std::string quick_help =
      fmt::format("{}, in a minute or two; against huggingface only some rungs", kQuickShape);
  static const std::vector<ArgumentSpec> rows = {
      {.name = "model_name_or_path",
       .kind = kText,
       .standard = std::string(kLadderShape),
       .value = "DIR",
       .help = model_help,
       .aliases = {"model"}},
      {.name = "sequence_length", .kind = kInteger, .standard = int64_t{512}, .help = "tokens in a sample"},
      {.name = "quick", .kind = kFlag, .standard = false, .help = quick_help},
      {.name = "rungs",
       .kind = kList,
       .standard = std::vector<std::string>(),
       .help = "only these, by the names that stand beside the flags; the first one is the reference"},
      {.name = "steps",
       .kind = kInteger,
       .standard = int64_t{3},
       .help = "optimizer steps of a process; the first does not count"},
      {.name = "against",
       .kind = kText,
       .standard = std::string(),
       .help = "huggingface: run its Trainer on the same rungs, in turns with ours",
       .choices = {{"huggingface"}}},
      {.name = "python",
       .kind = kText,
       .standard = std::string(),
       .help = "a Python that has transformers; else $SHOEHORN_PEERS_PYTHON, else the one that "
               "bench/peers/setup.sh makes"},
      {.name = "memory_budget", .kind = kBytes, .help = "as for train; else what the machine has available"},
      {.name = "num_threads", .kind = kInteger, .help = "as for train, of both sides"},
      result_json_row(),
      result_json_file_row(),
      result_report_row(),
  };
  return rows;
}

// The rows above, and those of the rounds.
const std::vector<ArgumentSpec>& bench_ladder_rows() {
  static const std::vector<ArgumentSpec> rows = [] {
    std::vector<ArgumentSpec> all = bench_ladder_option_rows();
    const std::vector<ArgumentSpec> more = round_rows(LadderOptions().rounds);
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return rows;
}

std::filesystem::path find_python(const std::string& given) {
  std::filesystem::path python = given;
  if (const char* named = std::getenv("SHOEHORN_PEERS_PYTHON"); python.empty() && named != nullptr)
    python = named;
  if (python.empty()) python = user_cache_directory("peers") / "bin/python";
  if (!path_exists(python)) {
    throw user_error(
        "[--python] expected a Python with transformers, got nothing at {}; bench/peers/setup.sh makes one",
        python.string());
  }
  return python;
}

// Beside the build's directory, or where `make install` puts it.
std::filesystem::path find_peer_script() {
  const std::filesystem::path program = own_program();
  for (const char* place : {"../bench/peers", "../share/shoehorn/bench/peers"}) {
    std::filesystem::path script = (program.parent_path() / place / "train_step.py").lexically_normal();
    if (path_exists(script)) return script;
  }
  throw user_error("[--against] expected bench/peers/train_step.py beside the build of {}, got nothing there",
                   program.string());
}

LadderOptions ladder_options(const CommandOptions& given) {
  LadderOptions options;
  const bool quick = given.flag("quick");
  options.model = quick && !given.is_given("model_name_or_path") ? std::string(kQuickShape)
                                                                 : given.text("model_name_or_path");
  options.sequence_length = given.integer_at_least("sequence_length", 1);
  options.steps = given.integer_at_least("steps", 2, "; the first one does not count");
  if (quick && !given.is_given("steps")) options.steps = kQuickSteps;
  options.rounds = round_limits(given);
  if (quick && !given.is_given("max_seconds")) options.rounds.most_seconds = kQuickSeconds;
  if (given.is_given("num_threads")) options.num_threads = given.integer_at_least("num_threads", 1);
  use_threads(options.num_threads);  // the title says which
  if (given.is_given("memory_budget")) options.memory_budget_bytes = given.integer("memory_budget");
  if (given.text("against") == "huggingface") {
    options.python = find_python(given.text("python"));
    options.peer_script = find_peer_script();
  } else if (given.is_given("python")) {
    throw user_error("[--python] expected --against huggingface with it, got it alone");
  }
  const bool few = quick && options.has_peer() && !given.is_given("rungs");
  options.rungs = choose_rungs(few ? quick_peer_rungs() : given.list("rungs"));
  return options;
}

}  // namespace

CommandHelp help_of_bench_ladder() {
  return {.name = "bench ladder", .introduction = kLadderIntroduction, .own_rows = bench_ladder_rows()};
}

int run_bench_ladder(const std::vector<std::string>& words) {
  const CommandOptions given = parse_result_options(bench_ladder_rows(), words);
  const LadderOptions options = ladder_options(given);
  const StopSignals signals;
  prepare_result_files(given);
  const auto write_files = [&given](const LadderResult& so_far) {
    write_report(given, [&] { return ladder_page(so_far); });
    write_result_file(given, to_json(so_far));
  };
  const auto print = [&given](const LadderResult& result) {
    write_result(given, to_json(result), format_ladder(result));
  };
  const LadderResult result = walk_until_stopped<LadderResult>(
      [&](const auto& on_result) { return walk_ladder(options, show_progress("ladder"), on_result); },
      write_files, print, rungs_so_far);
  return exit_code_of(result);
}

}  // namespace shoehorn
