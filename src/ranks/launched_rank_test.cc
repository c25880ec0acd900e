#include "ranks/launched_rank.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/error.h"
#include "base/error_testing.h"

namespace shoehorn {
namespace {

using Variables = std::map<std::string, std::string>;

// Reads these, which have to outlive it.
Environment environment_of(const Variables& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

std::optional<LaunchedRank> rank_in(const Variables& variables) {
  return launched_rank(environment_of(variables));
}

TEST(LaunchedRank, KnowsTheLaunchersOfMpi) {
  const auto open_mpi = rank_in(
      {{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  ASSERT_TRUE(open_mpi);
  EXPECT_EQ(open_mpi->rank, 3);
  EXPECT_EQ(open_mpi->size, 4);
  EXPECT_EQ(open_mpi->local_size, 2);
  EXPECT_EQ(open_mpi->launcher, "mpirun (Open MPI)");
  const auto mpich = rank_in({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}});
  ASSERT_TRUE(mpich);
  EXPECT_EQ(mpich->size, 2);
  const auto slurm = rank_in({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "8"}});
  ASSERT_TRUE(slurm);
  EXPECT_EQ(slurm->rank, 1);
  EXPECT_EQ(slurm->local_size, 1) << "the launcher does not say";
}

TEST(LaunchedRank, IsNoneWhereThereIsOneProcess) {
  EXPECT_FALSE(rank_in({}));
  EXPECT_FALSE(rank_in({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}));
  EXPECT_FALSE(rank_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}})) << "the script of a batch";
  EXPECT_FALSE(rank_in({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
}

TEST(LaunchedRank, SrunStartsItsRanksAgain) {
  const auto words_in = [](const Variables& variables) {
    return words_to_start_again(environment_of(variables));
  };
  EXPECT_EQ(words_in({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "8"}}),
            (std::vector<std::string>{"srun", "--mpi=pmix", "--ntasks=8"}));
  EXPECT_TRUE(words_in({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}).empty());
  EXPECT_TRUE(words_in({{"OMPI_COMM_WORLD_RANK", "0"},
                        {"OMPI_COMM_WORLD_SIZE", "2"},
                        {"SLURM_PROCID", "0"},
                        {"SLURM_STEP_NUM_TASKS", "2"}})
                  .empty())
      << "mpirun's rank in a job of Slurm";
}

TEST(LaunchedRank, IsLaunchedAlsoAsTheOnlyOne) {
  const auto is_launched_in = [](const Variables& variables) {
    return is_launched(environment_of(variables));
  };
  EXPECT_TRUE(is_launched_in({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}));
  EXPECT_TRUE(is_launched_in({{"SLURM_PROCID", "0"}}));
  EXPECT_FALSE(is_launched_in({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  EXPECT_FALSE(is_launched_in({}));
}

// Whoever launched the rank that starts it.
TEST(LaunchedRank, IsNoneOfAProcessThatARankStarts) {
  for (const std::map<std::string, std::string>& launched :
       {std::map<std::string, std::string>{{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}},
        {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}},
        {{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"RANK", "1"}, {"WORLD_SIZE", "8"}}}) {
    std::map<std::string, std::string> variables = launched;
    ASSERT_TRUE(rank_in(variables));
    variables["HOME"] = "/home";
    variables["PMIX_SERVER_URI2"] = "of the mpirun that started it";
    std::vector<std::string> names;
    for (const auto& [name, value] : variables) names.push_back(name);
    for (const std::string& variable : variables_of_one_process(names)) {
      const size_t equal = variable.find('=');
      if (equal == std::string::npos)
        variables.erase(variable);
      else
        variables[variable.substr(0, equal)] = variable.substr(equal + 1);
    }
    EXPECT_FALSE(rank_in(variables));
    EXPECT_FALSE(variables.contains("PMIX_SERVER_URI2")) << "it starts ranks by another";
    EXPECT_TRUE(variables.contains("HOME"));
  }
}

TEST(LaunchedRank, RefusesThoseOfTorchrunByName) {
  try {
    rank_in({{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"WORLD_SIZE", "2"}});
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("torchrun"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("shoehorn launch"), std::string::npos);
  }
}

TEST(LaunchedRank, WhatIsNoNumberIsRefusedByName) {
  const auto refusal = [](const std::map<std::string, std::string>& variables) {
    return message_of<UserError>([&] { rank_in(variables); });
  };
  for (const char* size : {"x", "", "0", "-2", "2x", "99999999999"}) {
    EXPECT_EQ(refusal({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", size}})
                  .find("[OMPI_COMM_WORLD_SIZE]"),
              0U)
        << size;
    EXPECT_EQ(refusal({{"RANK", "0"}, {"WORLD_SIZE", size}}).find("[WORLD_SIZE]"), 0U) << size;
  }
  EXPECT_EQ(refusal({{"PMI_RANK", "x"}, {"PMI_SIZE", "2"}}).find("[PMI_RANK]"), 0U);
  EXPECT_EQ(
      refusal({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "x"}}).find("[MPI_LOCALNRANKS]"),
      0U);
  EXPECT_EQ(refusal({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}).find("[PMI_RANK] expected a rank below 2"), 0U);
}

TEST(SlurmTasks, AreANumberOfTheJob) {
  const auto tasks_in = [](const char* text) {
    return slurm_tasks(
        [text](const char* name) { return name == std::string("SLURM_NTASKS") ? text : nullptr; });
  };
  EXPECT_EQ(tasks_in("8"), 8);
  EXPECT_FALSE(tasks_in(nullptr));
  for (const char* wrong : {"", "x", "0", "4(x2)"}) {
    EXPECT_TRUE(contains(message_of<UserError>([&] { tasks_in(wrong); }),
                         "[SLURM_NTASKS] expected a whole number, 1 or more"))
        << wrong;
  }
}

TEST(LaunchedPace, IsWhatTheLauncherWrote) {
  const LinkPace pace{.latency_seconds = 1e-4, .bytes_per_second = 1.25e8};
  const auto pace_in = [](const char* text) {
    return launched_pace(
        [text](const char* name) { return name == std::string(kLinkVariable) ? text : nullptr; });
  };
  const std::string text = to_text(pace);
  const std::optional<LinkPace> read = pace_in(text.c_str());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->latency_seconds, pace.latency_seconds);
  EXPECT_EQ(read->bytes_per_second, pace.bytes_per_second);
  EXPECT_EQ(read->seconds_of(125'000), 1e-4 + 1e-3);
  EXPECT_FALSE(pace_in(nullptr));
  for (const char* wrong : {"", "x", "1e-4", "1e-4 0", "-1 1e8"}) {
    EXPECT_EQ(message_of<UserError>([&] { pace_in(wrong); }).find("[SHOEHORN_LINK] expected"), 0U) << wrong;
  }
}

}  // namespace
}  // namespace shoehorn
