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

// How long a rank that fails leaves the word to others that do not wait for it: what all make alike each makes when it comes
// there, and what happens to one of them keeps the others waiting.
constexpr double kSecondsToMakeAMistake = 5;
constexpr double kSecondsToFail = 0.5;

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

std::shared_ptr<Communicator>& kept_ranks() {
  static std::shared_ptr<Communicator> ranks;
  return ranks;
}

// Before ranks can tell each other anything. False if another's failure ended the run meanwhile.
bool outlasts_main_rank(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (stop_signal() == 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return stop_signal() == 0;
}

bool may_print_error(const LaunchedRank& launched, ErrorKind kind) {
  if (const std::shared_ptr<Communicator>& ranks = kept_ranks())
    return ranks->may_say_its_failure(kind == ErrorKind::kOther ? kSecondsToFail : kSecondsToMakeAMistake);
  join_ranks();
  return launched.rank == 0 || outlasts_main_rank(kSecondsToMakeAMistake);
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

std::shared_ptr<Communicator> open_ranks_of_process(const LaunchedRank& launched, double timeout_seconds) {
  if (kept_ranks() != nullptr) {
    kept_ranks()->set_timeout_seconds(timeout_seconds);
    return kept_ranks();
  }
  kept_ranks() = open_ranks(launched, timeout_seconds);
  if (const std::optional<LinkPace> pace = launched_pace()) kept_ranks()->set_pace(*pace);
  return kept_ranks();
}

std::shared_ptr<Communicator> open_ranks_of(TrainingArguments& args, const std::string& search) {
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
  std::shared_ptr<Communicator> ranks =
      open_ranks_of_process(*launched, static_cast<double>(args.ddp_timeout));
  check_arguments_alike(*ranks, args, search);
  const std::vector<HostRanks> hosts = hosts_of_ranks(*ranks, host_name());
  if (args.zero_group_size == 0) args.zero_group_size = ranks_of_each_host(hosts);
  args.ranks_per_host = ranks_per_host(hosts, args.ranks_per_host);
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
  return std::getenv(kLauncherVariable) != nullptr && is_launched();
}

int exit_code_of_rank(int exit_code) {
  const int signal = stop_signal();
  const bool is_stop = signal != 0 && exit_code == exit_code_of_stop(signal);
  return is_stop && has_launcher() ? 0 : exit_code;
}

void end_rank_of_process(int exit_code) {
  const std::optional<LaunchedRank> launched = rank_of_process();
  if (!launched) return;
  if (exit_code != 0) {
    end_ranks(exit_code);
  } else if (launched->rank == 0) {
    tell_success();
  }
}

void print_error(const ErrorReport& report) {
  const std::optional<LaunchedRank> launched = rank_of_process();
  if (!launched) {
    fmt::print(stderr, "{}", format_error(report));
    return;
  }
  if (!may_print_error(*launched, report.kind)) return;
  fmt::print(stderr, "rank {} on {}: {}", launched->rank, host_name(), format_error(report));
}

}  // namespace shoehorn
