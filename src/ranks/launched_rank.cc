#include "ranks/launched_rank.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <sstream>
#include <string_view>
#include <system_error>

#include "base/error.h"

namespace shoehorn {

namespace {

struct Launcher {
  const char* name;
  const char *rank, *size, *local_size;
};

constexpr const char* kSrun = "srun (Slurm)";

// Slurm sets the variables of a step for its tasks only, and not for the script of a batch.
constexpr std::array kLaunchers = {
    Launcher{"mpirun (Open MPI)", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
             "OMPI_COMM_WORLD_LOCAL_SIZE"},
    Launcher{"mpirun (MPICH)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
    Launcher{kSrun, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"},
};

// How names of variables begin by which mpirun speaks to its ranks: Open MPI's, and MPICH's.
constexpr std::array kOfMpirun = {"OMPI_", "PMIX_", "PRTE_", "PMI_", "HYDI_", "HYDRA_", "MPIR_", "MPI_LOCAL"};

const char* of_process(const char* name) {
  return std::getenv(name);
}

// A whole number from `least`; `absent` where the variable is not set.
int32_t number_of(const Environment& environment, const char* name, int32_t least, int32_t absent) {
  const char* text = environment(name);
  if (text == nullptr) return absent;
  const char* const end = text + std::strlen(text);
  int32_t number = 0;
  const auto [rest, error] = std::from_chars(text, end, number);
  if (error != std::errc() || rest != end || number < least)
    throw user_error(
        "[{}] expected a whole number, {} or more, as a launcher sets it, got '{}'; start ranks with "
        "`shoehorn launch --nproc_per_node N train …`, or unset it",
        name, least, text);
  return number;
}

// Slurm has those of several hosts in one text, "2(x3),1": the first number counts.
int32_t ranks_of_host(const Environment& environment, const char* name, int32_t size) {
  const char* text = environment(name);
  if (text == nullptr) return 1;
  int32_t number = 0;
  if (std::from_chars(text, text + std::strlen(text), number).ec != std::errc() || number < 1)
    throw user_error("[{}] expected the number of ranks of a host, got '{}'", name, text);
  return std::min(number, size);
}

}  // namespace

std::optional<LaunchedRank> launched_rank(const Environment& environment) {
  for (const Launcher& launcher : kLaunchers) {
    if (environment(launcher.rank) == nullptr) continue;
    const int32_t size = number_of(environment, launcher.size, 1, 1);
    if (size <= 1) continue;
    const int32_t rank = number_of(environment, launcher.rank, 0, 0);
    if (rank >= size)
      throw user_error("[{}] expected a rank below {} ({}), got {}", launcher.rank, size, launcher.size,
                       rank);
    return LaunchedRank{rank, size, ranks_of_host(environment, launcher.local_size, size), launcher.name};
  }
  if (environment("RANK") != nullptr && number_of(environment, "WORLD_SIZE", 1, 1) > 1) {
    throw user_error(
        "[WORLD_SIZE {}] expected ranks that MPI started, got those of torchrun; start them with `shoehorn launch "
        "--nproc_per_node N train …` or `mpirun -n N shoehorn train …`",
        environment("WORLD_SIZE"));
  }
  return std::nullopt;
}

std::optional<LaunchedRank> launched_rank() {
  return launched_rank(of_process);
}

std::vector<std::string> words_to_start_again(const Environment& environment) {
  const std::optional<LaunchedRank> rank = launched_rank(environment);
  if (!rank || rank->launcher != kSrun) return {};
  return {"srun", "--mpi=pmix", "--ntasks=" + std::to_string(rank->size)};
}

std::vector<std::string> words_to_start_again() {
  return words_to_start_again(of_process);
}

bool is_launched(const Environment& environment) {
  return std::ranges::any_of(kLaunchers,
                             [&](const Launcher& launcher) { return environment(launcher.rank) != nullptr; });
}

bool is_launched() {
  return is_launched(of_process);
}

std::vector<std::string> variables_of_one_process(const std::vector<std::string>& names) {
  std::vector<std::string> variables = {"WORLD_SIZE=1", "SLURM_STEP_NUM_TASKS=1"};
  // Another mpirun below would take what one tells its ranks for its own.
  std::ranges::copy_if(names, std::back_inserter(variables), [](const std::string& name) {
    return std::ranges::any_of(kOfMpirun, [&](const char* beginning) { return name.starts_with(beginning); });
  });
  return variables;
}

std::vector<std::string> variables_of_one_process() {
  std::vector<std::string> names;
  for (char** setting = environ; *setting != nullptr; ++setting) {
    const std::string_view text = *setting;
    names.emplace_back(text.substr(0, text.find('=')));
  }
  return variables_of_one_process(names);
}

std::optional<int32_t> slurm_tasks(const Environment& environment) {
  constexpr const char* kTasks = "SLURM_NTASKS";
  if (environment(kTasks) == nullptr) return std::nullopt;
  return number_of(environment, kTasks, 1, 1);
}

std::optional<int32_t> slurm_tasks() {
  return slurm_tasks(of_process);
}

std::optional<LinkPace> launched_pace(const Environment& environment) {
  const char* text = environment(kLinkVariable);
  if (text == nullptr) return std::nullopt;
  LinkPace pace;
  std::istringstream stream(text);
  stream >> pace.latency_seconds >> pace.bytes_per_second;
  if (!stream || pace.latency_seconds < 0 || !(pace.bytes_per_second > 0)) {
    throw user_error("[{}] expected seconds and bytes a second, as launch --link_bandwidth sets it, got '{}'",
                     kLinkVariable, text);
  }
  return pace;
}

std::optional<LinkPace> launched_pace() {
  return launched_pace(of_process);
}

std::string to_text(const LinkPace& pace) {
  return fmt::format("{} {}", pace.latency_seconds, pace.bytes_per_second);
}

}  // namespace shoehorn
