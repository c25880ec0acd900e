#include "cli/fit_on_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "arguments/command_options.h"
#include "arguments/flag_words.h"
#include "base/child_process.h"
#include "base/error.h"
#include "base/format.h"
#include "base/plural.h"
#include "base/processors.h"
#include "base/stop_request.h"
#include "cli/find_fit.h"
#include "cli/notice_printer.h"
#include "cli/output_lines.h"
#include "cli/rank_of_process.h"
#include "exec/backend/thread_count.h"
#include "exec/backends.h"
#include "fit/fit_report.h"
#include "io/directory_lock.h"
#include "io/json_file.h"
#include "lab/measured_step.h"
#include "lab/scratch_directory.h"
#include "ranks/agreement.h"
#include "ranks/awaited_work.h"
#include "ranks/launched_rank.h"
#include "ranks/shared_processors.h"
#include "session/memory_forecast.h"

namespace shoehorn {

namespace {

// What a rank of these may be.
struct SearchedRank {
  int64_t budget_bytes = 0;  // of the rank that may take least
  int threads = 1;
};

SearchedRank searched_rank(Communicator& ranks, const TrainingArguments& args) {
  const int threads = use_threads(args.num_threads, ranks_on_own_processors(ranks)).threads;
  const std::unique_ptr<Backend> backend = make_backend();
  const int64_t own = args.memory_budget.value_or(
      whole_process_budget(*backend, backend->memory_limit(), ranks.local_size()));
  return {.budget_bytes = std::ranges::min(gather_values(ranks, own)), .threads = threads};
}

// Whether a process that a rank starts can start as many ranks beside these, which sleep.
bool can_run_plans(Communicator& ranks, const SearchedRank& rank) {
  const std::optional<LaunchedRank> launched = launched_rank();
  const bool has_mpirun = launched && launched->launcher.starts_with("mpirun");
  const bool has_processors = ranks.size() * rank.threads <= processors().usable();
  const bool can = has_mpirun && has_processors && ranks.local_size() == ranks.size();
  return std::ranges::min(gather_values(ranks, can ? 1 : 0)) == 1;
}

// How many of the best plans are run. UserError where that is asked for and cannot be.
int64_t verified_plans(const CommandOptions& options, Communicator& ranks, const SearchedRank& rank) {
  const bool can_run = can_run_plans(ranks, rank);
  if (!options.is_given("verify")) return can_run ? kVerifiedToTrain : 0;
  const int64_t asked = options.integer_at_least("verify", 0);
  if (asked == 0 || can_run) return asked;
  throw user_error(
      "[--verify] expected ranks that mpirun started on one host with a processor for each of their threads, got {} with {} "
      "each, {} of them on the host of the first one, which has {}; leave it out: their times are as predicted",
      plural(ranks.size(), "rank"), plural(rank.threads, "thread"), ranks.local_size(),
      plural(processors().usable(), "processor"));
}

// Later flags override the user's. Output for people goes where this rank writes it.
std::vector<std::string> search_command(const std::vector<std::string>& words, const TrainingArguments& args,
                                        const SearchedRank& rank, int64_t verified,
                                        const std::filesystem::path& result) {
  std::vector<std::string> command = joined({own_program().string(), "fit"}, words);
  command =
      joined(std::move(command),
             {"--json=false", "--json_file", result.string(), "--world_size", std::to_string(args.world_size),
              "--num_threads", std::to_string(rank.threads), "--memory_budget",
              std::to_string(rank.budget_bytes), "--verify", std::to_string(verified)});
  if (!args.ranks_per_host) return command;
  return joined(std::move(command), {"--ranks_per_host", std::to_string(*args.ranks_per_host)});
}

struct FoundFlags {
  std::vector<std::string> added = {};
  std::string text = {};  // for people, without the command that trains
};

FoundFlags run_search(const std::vector<std::string>& words, const TrainingArguments& args,
                      const SearchedRank& rank, int64_t verified) {
  DirectoryLock::require_free(args.output_dir);  // before the search rather than behind it
  const ScratchDirectory scratch;
  const std::filesystem::path result = scratch.path() / "found.json";
  const FinishedProcess finished =
      run_process(search_command(words, args, rank, verified, result),
                  joined(variables_of_one_process(), {std::string(kErrorsAsJson)}));
  if (finished.exit_code != 0) {
    const RunFailure failure = failure_of(finished);
    if (failure.outcome != RunOutcome::kFailed) throw UserError(failure.reason);
    throw system_error("[train --fit] expected a search on the first rank, got: {}", failure.reason);
  }
  return {.added = read_json(result).at("chosen").at("added_flags").get<std::vector<std::string>>(),
          .text = finished.output.substr(0, finished.output.rfind(kTrainCommandHeading))};
}

}  // namespace

ParsedArguments parse_run_to_fit(const std::vector<std::string>& words, int64_t ranks) {
  const CommandOptions options = parse_options(fit_option_rows(), words, OtherWords::kTableFlags);
  options.integer_at_least("verify", 0);  // before ranks are opened, which tell whether they can
  return parse_arguments(Command::kTrain, options.rest, ranks);
}

std::vector<std::string> find_fit_on_ranks(const std::vector<std::string>& words) {
  const CommandOptions options = parse_options(fit_option_rows(), words, OtherWords::kTableFlags);
  TrainingArguments args = parse_run_to_fit(words, launched_ranks()).arguments;
  const std::shared_ptr<Communicator> ranks = open_ranks_of(args, "--fit" + options.given_text());
  const StopSignals signals = stop_signals_of_process();
  const SearchedRank rank = searched_rank(*ranks, args);
  const int64_t verified = verified_plans(options, *ranks, rank);
  print_text(args, fmt::format("Finding the fastest plan of {} ranks that fits {} on each\n", ranks->size(),
                               format_bytes(rank.budget_bytes)));
  FoundFlags found;
  await_work(*ranks, ranks->is_main(), [&] { found = run_search(words, args, rank, verified); });
  agree_on_stop(*ranks);
  const std::string added = text_of_main_rank(*ranks, nlohmann::json(found.added).dump());
  std::vector<std::string> flags =
      joined(options.rest, parse_json(added, "the first rank").get<std::vector<std::string>>());
  if (ranks->is_main() && !args.json) {
    print_flushed(
        stdout,
        fmt::format(
            "{}{}\n{}", found.text,
            verified > 0
                ? ""
                : "\nNot timed: --verify runs plans of ranks of one host, with a processor for each thread\n",
            format_train_command(train_command(flags, ranks->size()))));
  }
  return flags;
}

}  // namespace shoehorn
