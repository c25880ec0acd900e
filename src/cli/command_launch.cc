#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "arguments/command_options.h"
#include "base/child_process.h"
#include "base/error.h"
#include "base/processors.h"
#include "cli/commands.h"

namespace shoehorn {

namespace {

constexpr const char* kLaunched = "train";

const std::vector<ArgumentSpec>& option_rows() {
  static const std::vector<ArgumentSpec> rows = {
      {.name = "nproc_per_node",
       .kind = ArgumentKind::kInteger,
       .standard = int64_t{0},
       .help = "ranks on this host, or with a hostfile in all; one a processor unless given",
       .aliases = {"num_processes"}},
      {.name = "hostfile",
       .kind = ArgumentKind::kText,
       .standard = std::string(),
       .value = "FILE",
       .help = "the hosts, a line each, as mpirun takes them: NAME slots=N"}};
  return rows;
}

// What mpirun needs to start ranks as root, more of them than processors, and unbound: Open MPI 4 reads OMPI_MCA_…, Open
// MPI 5 PRTE_MCA_…. Open MPI 4 waits for the whole timeout, twice, before it ends, also where all ranks have ended: it is
// short enough for a run whose rank was killed to be over within ten seconds, and long enough to save a checkpoint of a
// small model. A variable that is set already stays.
void set_environment() {
  for (const auto& [name, value] : {std::pair{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                    {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                                    {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
                                    {"OMPI_MCA_hwloc_base_binding_policy", "none"},
                                    {"PRTE_MCA_hwloc_default_binding_policy", "none"},
                                    {"OMPI_MCA_odls_base_sigkill_timeout", "4"},
                                    {"PRTE_MCA_odls_base_sigkill_timeout", "4"}})
    setenv(name, value, 0);
}

// The path of mpirun; empty if there is none.
std::string find_mpirun() {
  const char* path = std::getenv("PATH");
  std::string folders = path == nullptr ? "" : path;
  for (size_t begin = 0; begin < folders.size();) {
    const size_t end = std::min(folders.find(':', begin), folders.size());
    const std::string program = folders.substr(begin, end - begin) + "/mpirun";
    if (access(program.c_str(), X_OK) == 0) return program;
    begin = end + 1;
  }
  return {};
}

}  // namespace

CommandHelp help_of_launch() {
  return {
      .name = "launch",
      .introduction =
          "Starts train as several ranks, processes that share each step (data parallel), with mpirun. The flags of\n"
          "train follow; the effective batch is per_device_train_batch_size x gradient_accumulation_steps x ranks.\n\n"
          "  shoehorn launch --nproc_per_node 4 train --model_name_or_path DIR --train_file train.csv --output_dir out\n",
      .own_rows = option_rows()};
}

int run_launch(const std::vector<std::string>& words) {
  const auto command = std::find(words.begin(), words.end(), kLaunched);
  const CommandOptions options = parse_options(option_rows(), {words.begin(), command});
  if (command == words.end()) {
    throw user_error(
        "[launch] expected the command that the ranks run, train and its flags, got none; "
        "`shoehorn launch --nproc_per_node 4 train …`");
  }
  int64_t ranks = processors().usable();
  if (options.is_given("nproc_per_node")) ranks = options.integer_at_least("nproc_per_node", 1);
  const std::string mpirun = find_mpirun();
  if (mpirun.empty()) {
    throw user_error(
        "[launch] expected mpirun on the PATH, got none; install openmpi-bin and libopenmpi-dev (Debian), and "
        "build again");
  }
  set_environment();
  std::vector<std::string> started = {mpirun, "-n", std::to_string(ranks)};
  if (options.is_given("hostfile")) started.insert(started.end(), {"--hostfile", options.text("hostfile")});
  started.push_back(own_program().string());
  started.insert(started.end(), command, words.end());
  become_process(started);
}

}  // namespace shoehorn
