#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "arguments/argument_help.h"
#include "arguments/command_options.h"
#include "base/child_process.h"
#include "base/error.h"
#include "base/format.h"
#include "base/plural.h"
#include "base/processors.h"
#include "cli/bench_step_options.h"
#include "cli/command_list.h"
#include "cli/commands.h"
#include "cli/fit_on_ranks.h"
#include "cli/link_option.h"
#include "cli/rank_of_process.h"
#include "io/checkpoint_directory.h"
#include "io/file.h"
#include "lab/scratch_directory.h"
#include "ranks/host_probe.h"
#include "ranks/hostfile.h"
#include "ranks/launched_rank.h"
#include "ranks/mpi_engine.h"
#include "ranks/rank_launcher.h"

namespace shoehorn {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxRanks = 4096;  // more processes than that stop a host
constexpr std::string_view kNoMeetingPoint =
    "torchrun and Accelerate; leave it out: mpirun tells the ranks where the others are";

const std::vector<ArgumentSpec>& launch_option_rows() {
  static const std::vector<ArgumentSpec> rows = {
      {.name = "nproc_per_node",
       .kind = ArgumentKind::kInteger,
       .help =
           "ranks on this host, or with a hostfile in all; unless given the slots of the hostfile, or Slurm's number of "
           "tasks, else one a processor",
       .aliases = {"num_processes"}},
      {.name = "hostfile",
       .kind = ArgumentKind::kText,
       .standard = std::string(),
       .value = "FILE",
       .help = "the hosts, a line each, as Open MPI's mpirun takes them: NAME slots=N"},
      {.name = "max_restarts",
       .kind = ArgumentKind::kInteger,
       .standard = int64_t{0},
       .help =
           "times that ranks are started again behind a failure, from the last checkpoint, without the hosts that do not "
           "answer any more"},
      {.name = "keep_ranks",
       .kind = ArgumentKind::kFlag,
       .standard = false,
       .help = "a restart starts as many ranks, instead of those that are left"},
      launched_link_rows()[0],
      launched_link_rows()[1],
      {.name = "nnodes",
       .kind = ArgumentKind::kText,
       .standard = std::string("1"),
       .status = ArgumentStatus::kElsewhere,
       .why =
           "torchrun and Accelerate; give --hostfile, which names the hosts, and --nproc_per_node, their ranks in all",
       .aliases = {"num_machines"}},
      {.name = "node_rank",
       .kind = ArgumentKind::kInteger,
       .standard = int64_t{0},
       .status = ArgumentStatus::kElsewhere,
       .why =
           "torchrun and Accelerate; launch is called on one host, and starts the ranks on all that --hostfile names",
       .aliases = {"machine_rank"}},
      {.name = "master_addr",
       .kind = ArgumentKind::kText,
       .status = ArgumentStatus::kElsewhere,
       .why = kNoMeetingPoint,
       .aliases = {"main_process_ip"}},
      {.name = "master_port",
       .kind = ArgumentKind::kInteger,
       .status = ArgumentStatus::kElsewhere,
       .why = kNoMeetingPoint,
       .aliases = {"main_process_port"}}};
  return rows;
}

// Ranks of this host that take a slower link's time find it in their environment.
void set_link(const CommandOptions& options) {
  const std::optional<RankLink> link = given_link(options);
  if (!link) return;
  if (options.is_given("hostfile")) {
    throw user_error(
        "[--link_bandwidth] expected ranks of this host, which try a slower link, got --hostfile; messages between hosts take the "
        "time of their own link");
  }
  setenv(kLinkVariable, to_text({link->latency_seconds, link->bytes_per_second}).c_str(), 1);
}

// The MPI that ranks send messages by. Where there is no library for it they say so themselves.
Mpi mpi_of_ranks() {
  const OpenedMpi opened = open_mpi();
  return opened.library == nullptr ? Mpi{} : mpi_of(opened.library->version());
}

// One that is set already stays.
void set_variables(const std::vector<std::pair<const char*, const char*>>& variables) {
  for (const auto& [name, value] : variables) setenv(name, value, 0);
}

// The path of the program that starts ranks of this MPI.
std::string find_mpirun(const Mpi& mpi) {
  const char* path = std::getenv("PATH");
  const RankStarter found = find_rank_starter(
      mpi.engine, path == nullptr ? "" : path,
      [](const std::string& program) { return run_process({program, "--version"}).output; });
  if (!found.program.empty()) return found.program;
  if (mpi.engine == MpiEngine::kOther) {
    throw user_error(
        "[launch] expected mpirun on the PATH, got none; install openmpi-bin and libopenmpi-dev (Debian), and "
        "build again");
  }
  throw user_error(
      "[launch] expected {} of {}, which this program is built with, on the PATH, got {}; install {} (Debian), or build again "
      "with the MPI that is there",
      fmt::join(names_of_rank_starters(mpi.engine), " or "), mpi.name,
      found.of_others.empty() ? "none" : fmt::format("{} of another MPI", fmt::join(found.of_others, ", ")),
      mpi.engine == MpiEngine::kMpich ? "mpich" : "openmpi-bin");
}

// Those of the hosts that are named, else of the job of Slurm that this is in.
int64_t number_of_ranks(const CommandOptions& options) {
  if (options.is_given("nproc_per_node")) return options.integer_at_least("nproc_per_node", 1);
  if (options.is_given("hostfile")) {
    const std::string& name = options.text("hostfile");
    return slots_of_hosts(read_text_file(name), name);
  }
  const std::optional<int32_t> tasks = slurm_tasks();
  return tasks ? *tasks : processors().usable();
}

using Checkpoints = std::map<fs::path, fs::file_time_type>;

Checkpoints checkpoints_in(const std::string& output_dir) {
  Checkpoints found;
  std::error_code absent;
  for (const fs::path& path : list_checkpoints(output_dir)) found[path] = fs::last_write_time(path, absent);
  return found;
}

// The newest complete checkpoint of this run, which was started beside the checkpoints `old` of others; none if there is
// none yet.
std::optional<fs::path> last_checkpoint(const TrainingArguments& args, const Checkpoints& old) {
  LatestCheckpoint latest = latest_checkpoint(args.output_dir);
  const bool is_resumed = !args.resume_from_checkpoint.empty();  // then old ones are of the run, too
  std::error_code absent;
  while (latest.path && !is_resumed) {
    const auto before = old.find(*latest.path);
    if (before == old.end() || before->second != fs::last_write_time(*latest.path, absent)) break;
    latest = latest_checkpoint(args.output_dir, latest.step);
  }
  return latest.path;
}

// What is started, and again behind a failure.
struct LaunchedRun {
  MpiEngine engine = MpiEngine::kOther;
  std::string mpirun;                // its path
  std::string hostfile = {};         // as given; "": this host
  std::vector<std::string> command;  // of each rank
  int64_t ranks = 1;
  int64_t max_restarts = 0;
  bool keeps_ranks = false;

  // On this host alone a rank tells whether all is done.
  Success success() const {
    const bool is_elsewhere = !hostfile.empty() || slurm_tasks();
    return engine == MpiEngine::kMpich && ranks > 1 && !is_elsewhere ? Success::kIsTold
                                                                     : Success::kIsExitCode;
  }
  std::vector<std::string> flags() const { return {command.begin() + 2, command.end()}; }
  // `hosts`: the hostfile to use.
  std::vector<std::string> words(const std::string& hosts, const std::vector<std::string>& added) const {
    std::vector<std::string> all = rank_starter_words(engine, mpirun, hosts);
    all.insert(all.end(), {"-n", std::to_string(ranks)});
    all.insert(all.end(), command.begin(), command.end());
    all.insert(all.end(), added.begin(), added.end());
    return all;
  }
};

// The flags by which `ranks` of them take the steps that `asked` takes.
std::vector<std::string> same_steps(const ParsedArguments& asked, int64_t ranks) {
  TrainingArguments args = asked.arguments;
  if (ranks == args.world_size) return {};
  args.effective_batch_size = effective_batch_size(args);
  args.world_size = ranks;
  std::vector<std::string> flags = {
      "--effective_batch_size",        std::to_string(*args.effective_batch_size),
      "--per_device_train_batch_size", std::to_string(args.per_device_train_batch_size),
      "--gradient_accumulation_steps", std::to_string(micro_batches_of_rank(args))};
  if (asked.sets("world_size")) flags.insert(flags.end(), {"--world_size", std::to_string(ranks)});
  return flags;
}

// True if so many ranks make whole groups that share (--zero_group_size). A group that is a host (0) has as many as every
// other: with a rank less one would have fewer. `hosts`: that are left with all of their ranks, where others were lost.
bool make_whole_groups(const TrainingArguments& args, int64_t ranks, std::optional<int64_t> hosts) {
  if (args.zero_stage == 0 || !args.zero_group_size || ranks == 1) return true;
  if (*args.zero_group_size == 0) return hosts && ranks % *hosts == 0;
  return ranks % *args.zero_group_size == 0;
}

// True if so many ranks, fewer than there were, can take the run's steps. With local SGD each has an optimizer of its own, with
// DataParallel one micro-batch. Ranks that find their micro-batch themselves say nothing of its size here. `hosts`: as above.
bool can_take_steps(const LaunchedRun& run, const ParsedArguments& asked, int64_t ranks,
                    std::optional<int64_t> hosts) {
  const TrainingArguments& args = asked.arguments;
  if (run.keeps_ranks || ranks == 0 || args.auto_find_batch_size || args.local_sgd_steps > 0 ||
      are_replicas(args) || !make_whole_groups(args, ranks, hosts))
    return false;
  const std::vector<std::string> added = same_steps(asked, ranks);
  std::vector<std::string> flags = run.flags();
  flags.insert(flags.end(), added.begin(), added.end());
  try {
    parse_arguments(Command::kTrain, flags, ranks);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

[[noreturn]] void throw_no_launched_command(const std::vector<std::string>& command) {
  const std::string got = command.empty() ? "" : command[0];
  if (const CommandEntry* entry = find_command(command).first) {
    throw user_error(
        "[launch] expected {}, which run as ranks, got '{}'; it runs as one process: `shoehorn {} …`",
        fmt::join(kCommandsOnRanks, ", "), entry->name, entry->name);
  }
  throw user_error(
      "[launch] expected the command that the ranks run ({}) and its flags, got {}{}; "
      "`shoehorn launch --nproc_per_node 4 train …`",
      fmt::join(kCommandsOnRanks, ", "), got.empty() ? "nothing" : fmt::format("'{}'", got),
      did_you_mean(nearest_name(got, {kCommandsOnRanks.begin(), kCommandsOnRanks.end()})));
}

// A slip is told once, and before the ranks are started. `flags`: of the command of that name.
void check_flags(std::string_view name, std::vector<std::string> flags, int64_t ranks) {
  if (help_word_of(flags)) return;
  if (name == "bench step") {
    parse_bench_step(flags, ranks);
    return;
  }
  if (name == "train" && std::erase(flags, "--fit") > 0) {
    parse_run_to_fit(flags, ranks);
    return;
  }
  for (const auto& [known, command] :
       {std::pair{"train", Command::kTrain}, {"eval", Command::kEval}, {"predict", Command::kPredict}}) {
    if (name == known) parse_arguments(command, flags, ranks);
  }
}

LaunchEnd run_once(const LaunchedRun& run, const std::string& hosts, const std::vector<std::string>& added) {
  const LaunchEnd end = run_launcher(run.words(hosts, added), run.success());
  if (end.has_lost_a_rank)
    fmt::print(stderr,
               "error: [ranks] expected all to finish, got the end of one before, which was killed\n");
  if (end.was_stuck) {
    fmt::print(
        stderr,
        "error: [mpirun] expected its end with that of its ranks, got none within {:g} s: it was killed\n",
        kSecondsAlone);
  }
  return end;
}

// The hosts of the hostfile, as it is now, that answer; says which do not. SystemError if none does.
std::vector<HostLine> find_hosts(const LaunchedRun& run) {
  const std::vector<HostLine> all = lines_of_hosts(read_text_file(run.hostfile), run.hostfile);
  const std::vector<std::string> lost = lost_hosts(run.engine, run.mpirun, names_of_hosts(all));
  std::vector<HostLine> found = without_hosts(all, lost);
  if (found.empty()) {
    throw system_error(
        "[--hostfile {}] expected a host to go on with, got none that answers: mpirun starts nothing on {} within {:g} s",
        run.hostfile, fmt::join(lost, ", "), kProbeSeconds);
  }
  if (!lost.empty()) {
    fmt::print(stderr, "{} {} not answer any more: the run goes on without\n", fmt::join(lost, ", "),
               lost.size() == 1 ? "does" : "do");
  }
  return found;
}

// How many ranks a restart has: of those that are left as many as can take the run's steps, or else as many as before. `before`,
// `found`: the hosts of the last start, and those that answer.
int64_t ranks_of_restart(const LaunchedRun& run, const ParsedArguments& asked,
                         const std::vector<HostLine>& before, const std::vector<HostLine>& found) {
  const std::vector<std::string> names = names_of_hosts(found);
  const bool is_host_lost = !without_hosts(before, names).empty();
  if (!is_host_lost) return can_take_steps(run, asked, run.ranks - 1, {}) ? run.ranks - 1 : run.ranks;
  int64_t ranks = ranks_that_are_left(run.ranks, before, found);
  while (ranks > 0 && !can_take_steps(run, asked, ranks, std::ssize(names))) --ranks;
  return ranks > 0 ? ranks : run.ranks;
}

// Starts the ranks, and again behind a failure, up to max_restarts times: those that are left, where they can take the
// same steps, on the hosts that are left. What the user has to correct fails again.
int run_with_restarts(LaunchedRun run) {
  constexpr int kUsersMistake = 2;
  if (run.max_restarts == 0) return run_once(run, run.hostfile, {}).shell_code();
  const ParsedArguments asked = parse_arguments(Command::kTrain, run.flags(), run.ranks);
  const Checkpoints old = checkpoints_in(asked.arguments.output_dir);
  const bool has_hosts = !run.hostfile.empty();
  const ScratchDirectory scratch;
  std::string hostfile = run.hostfile;
  std::vector<HostLine> hosts;
  if (has_hosts) {
    hosts = lines_of_hosts(read_text_file(hostfile), hostfile);
    set_variables(lost_host_variables(run.engine));
  }
  std::vector<std::string> added;
  for (int64_t restarts = 0;; ++restarts) {
    const LaunchEnd end = run_once(run, hostfile, added);
    if (end.exit_code == 0 || end.exit_code == kUsersMistake || end.stop_signal != 0 ||
        restarts == run.max_restarts)
      return end.shell_code();
    std::vector<HostLine> found = has_hosts ? find_hosts(run) : std::vector<HostLine>();
    run.ranks = ranks_of_restart(run, asked, hosts, found);
    hosts = std::move(found);
    if (has_hosts) {
      hostfile = (scratch.path() / "hosts").string();
      write_text_atomic(hostfile, text_of_hosts(hosts));
    }
    added = same_steps(asked, run.ranks);
    const std::optional<fs::path> checkpoint = last_checkpoint(asked.arguments, old);
    if (checkpoint) added.insert(added.end(), {"--resume_from_checkpoint", checkpoint->string()});
    fmt::print(
        stderr, "The ranks ended with exit code {}; restart {} of {} with {} {}\n", end.exit_code,
        restarts + 1, run.max_restarts, plural(run.ranks, "rank"),
        checkpoint ? "goes on from " + checkpoint->string() : "begins anew, as no checkpoint was saved");
  }
}

}  // namespace

CommandHelp help_of_launch() {
  return {
      .name = "launch",
      .introduction =
          "Starts train as several ranks, processes that share each step (data parallel), with mpirun. The flags of\n"
          "train follow; the effective batch is per_device_train_batch_size x gradient_accumulation_steps x ranks.\n"
          "So it starts eval and predict, whose batches the ranks share, topo, which measures how they reach each other, and\n"
          "bench step, which times the step.\n\n"
          "  shoehorn launch --nproc_per_node 4 train --model_name_or_path DIR --train_file train.csv --output_dir out\n",
      .own_rows = launch_option_rows()};
}

int run_launch(const std::vector<std::string>& words) {
  const CommandOptions options = parse_options(launch_option_rows(), words, OtherWords::kCommandLine);
  const std::vector<std::string>& command = options.rest;
  const auto [entry, flags] = find_command(command);
  if (entry == nullptr || std::ranges::find(kCommandsOnRanks, entry->name) == kCommandsOnRanks.end())
    throw_no_launched_command(command);
  const int64_t ranks = number_of_ranks(options);
  if (ranks > kMaxRanks)
    throw user_error("[--nproc_per_node] expected at most {} ranks, got {}", kMaxRanks, ranks);
  if (entry->name != "train" && options.is_given("max_restarts"))
    throw user_error("[--max_restarts] expected train, which goes on from a checkpoint, got {}", entry->name);
  if (options.is_given("max_restarts") && std::ranges::find(command, "--fit") != command.end()) {
    throw user_error(
        "[--max_restarts] expected flags of train to start again with, got --fit, which finds them anew; `shoehorn fit "
        "--world_size {}` says them",
        ranks);
  }
  set_link(options);
  check_flags(entry->name, flags, ranks);
  const Mpi mpi = mpi_of_ranks();
  set_variables(rank_starter_variables(mpi.engine));
  LaunchedRun run{.engine = mpi.engine,
                  .mpirun = find_mpirun(mpi),
                  .hostfile = options.text("hostfile"),
                  .command = {own_program().string()},
                  .ranks = ranks,
                  .max_restarts = options.integer_at_least("max_restarts", 0),
                  .keeps_ranks = options.flag("keep_ranks")};
  run.command.insert(run.command.end(), command.begin(), command.end());
  return run_with_restarts(std::move(run));
}

}  // namespace shoehorn
