#include "ranks/launched_rank.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/error.h"

namespace shoehorn {

namespace {

struct Launcher {
  const char* name;
  const char *rank, *size, *local_size;
};

// Slurm sets the variables of a step for its tasks only, and not for the script of a batch.
constexpr std::array kLaunchers = {
    Launcher{"mpirun (Open MPI)", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
             "OMPI_COMM_WORLD_LOCAL_SIZE"},
    Launcher{"mpirun (MPICH)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
    Launcher{"srun (Slurm)", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"},
};

int32_t number_of(const Environment& environment, const char* name, int32_t absent) {
  const char* text = environment(name);
  return text == nullptr ? absent : std::max(0, std::atoi(text));
}

}  // namespace

std::optional<LaunchedRank> launched_rank(const Environment& environment) {
  for (const Launcher& launcher : kLaunchers) {
    if (environment(launcher.rank) == nullptr) continue;
    const int32_t size = number_of(environment, launcher.size, 1);
    if (size <= 1) continue;
    return LaunchedRank{number_of(environment, launcher.rank, 0), size,
                        std::clamp(number_of(environment, launcher.local_size, 1), 1, size), launcher.name};
  }
  if (environment("RANK") != nullptr && number_of(environment, "WORLD_SIZE", 1) > 1) {
    throw user_error(
        "[WORLD_SIZE {}] expected ranks that MPI started, got those of torchrun; start them with `shoehorn launch "
        "--nproc_per_node N train …` or `mpirun -n N shoehorn train …`",
        environment("WORLD_SIZE"));
  }
  return std::nullopt;
}

std::optional<LaunchedRank> launched_rank() {
  return launched_rank([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace shoehorn
