#include "cli/rank_of_process.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/stop_request.h"
#include "cli/notice_printer.h"
#include "cli/output_lines.h"
#include "ranks/agreement.h"
#include "ranks/open_ranks.h"
#include "ranks/rank_launcher.h"
#include "ranks/shared_processors.h"
#include "train/rank_facts.h"

namespace shoehorn {

namespace {

constexpr std::chrono::milliseconds kMoment{5000};

// As launched_rank(), but one process where that is an error: of commands that do not run on ranks, which whoever started them
// need not know. Those that do refuse it by name (check_runs_on_ranks).
std::optional<LaunchedRank> rank_of_process() {
  try {
    return launched_rank();
  } catch (const UserError&) {
    return std::nullopt;
  }
}

// What the first rank shows another does not, unless it was asked to.
void speak_as_replica(int64_t rank, TrainingArguments& args) {
  const bool speaks = args.log_level_replica == "debug" || args.log_level_replica == "info";
  args.log_level = speaks ? args.log_level_replica : "error";
  args.disable_tqdm = true;
  if (speaks) begin_lines_with(fmt::format("rank {}: ", rank));
}

// A line that says to which processors each rank is bound; "" where none is.
std::string bind_ranks(Communicator& ranks, int64_t threads) {
  constexpr size_t kLongest = 256;
  const std::vector<std::string> shares = gather_texts(ranks, bind_to_share(ranks, threads), kLongest);
  if (!ranks.is_main() || std::ranges::all_of(shares, [](const std::string& share) { return share.empty(); }))
    return {};
  std::vector<std::string> bound;
  for (const std::string& share : shares) bound.push_back(share.empty() ? "unbound" : share);
  return fmt::format("Ranks are bound to processors of their own: {}\n", fmt::join(bound, " | "));
}

void wait_for_main_rank() {
  const auto end = std::chrono::steady_clock::now() + kMoment;
  while (stop_signal() == 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

}  // namespace

int64_t launched_ranks() {
  const std::optional<LaunchedRank> launched = launched_rank();
  return launched ? launched->size : 1;
}

void check_runs_on_ranks(std::string_view command) {
  if (std::ranges::find(kCommandsOnRanks, command) != kCommandsOnRanks.end()) return;
  if (const std::optional<LaunchedRank> launched = rank_of_process()) {
    throw user_error("[{}] expected one process, got {} ranks of {}; {} run on ranks", command,
                     launched->size, launched->launcher, fmt::join(kCommandsOnRanks, ", "));
  }
}

std::shared_ptr<Communicator> open_ranks_of(TrainingArguments& args) {
  const std::optional<LaunchedRank> launched = launched_rank();
  const int64_t size = launched ? launched->size : 1;
  if (args.world_size != size) {
    throw user_error(
        "[--world_size {0}] expected the number of ranks, got {1} of them; `shoehorn launch --nproc_per_node "
        "{0} train …` starts so many",
        args.world_size, size);
  }
  if (!launched) return nullptr;
  if (launched->rank > 0) speak_as_replica(launched->rank, args);
  std::shared_ptr<Communicator> ranks = open_ranks(*launched, static_cast<double>(args.ddp_timeout));
  check_arguments_alike(*ranks, args);
  if (args.zero_group_size == 0) args.zero_group_size = ranks_of_each_host(*ranks, host_name());
  return ranks;
}

bool is_main_rank(const std::shared_ptr<Communicator>& ranks) {
  return ranks == nullptr || ranks->is_main();
}

ThreadCount use_processors(const TrainingArguments& args, const std::shared_ptr<Communicator>& ranks) {
  if (ranks == nullptr) return use_threads(args.num_threads);
  const ThreadCount count = use_threads(args.num_threads, ranks_on_own_processors(*ranks));
  if (args.enable_cpu_affinity) print_text(args, bind_ranks(*ranks, count.threads));
  return count;
}

StopSignals stop_signals_of_process() {
  return has_launcher() ? StopSignals({SIGINT, SIGTERM, SIGHUP, SIGPIPE, kPassedOnSignal})
                        : StopSignals({SIGINT, SIGTERM, SIGHUP, SIGPIPE});
}

bool has_launcher() {
  return std::getenv(kLauncherVariable) != nullptr && rank_of_process();
}

int exit_code_of_rank(int exit_code) {
  const int signal = stop_signal();
  const bool is_stop = signal != 0 && exit_code == exit_code_of_stop(signal);
  return is_stop && has_launcher() ? 0 : exit_code;
}

void print_error(const ErrorReport& report) {
  const std::optional<LaunchedRank> launched = rank_of_process();
  if (!launched) {
    fmt::print(stderr, "{}", format_error(report));
    return;
  }
  if (launched->rank > 0) {
    wait_for_main_rank();
    if (stop_signal() != 0) return;  // the failure of another, which ends this rank too
  }
  fmt::print(stderr, "rank {} on {}: {}", launched->rank, host_name(), format_error(report));
}

}  // namespace shoehorn
