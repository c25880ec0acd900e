#include "ranks/mpi_engine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/test_directory.h"

namespace shoehorn {
namespace {

using Words = std::vector<std::string>;

// As libraries and programs of Debian 12 and 13 have it.
constexpr const char* kOpenMpiLibrary =
    "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, May 26, 2022";
constexpr const char* kOpenMpiProgram = "mpirun (Open MPI) 5.0.7\n\nReport bugs to …\n";
constexpr const char* kMpichLibrary =
    "MPICH Version:      4.2.1\nMPICH Release date: Wed Apr 17\nMPICH ABI: 16:1:4\n";
constexpr const char* kMpichProgram =
    "HYDRA build details:\n    Version:                                 4.2.1\n";

TEST(MpiEngine, IsReadFromAVersion) {
  EXPECT_EQ(mpi_of(kOpenMpiLibrary).engine, MpiEngine::kOpenMpi);
  EXPECT_EQ(mpi_of(kOpenMpiLibrary).name, "Open MPI v4.1.4");
  EXPECT_EQ(mpi_of(kOpenMpiProgram).engine, MpiEngine::kOpenMpi);
  EXPECT_EQ(mpi_of(kMpichLibrary).engine, MpiEngine::kMpich);
  EXPECT_EQ(mpi_of(kMpichLibrary).name, "MPICH 4.2.1");
  EXPECT_EQ(mpi_of(kMpichProgram).engine, MpiEngine::kMpich);
  EXPECT_EQ(mpi_of("MVAPICH Version:      3.0\n").engine, MpiEngine::kOther);
  EXPECT_EQ(mpi_of("").engine, MpiEngine::kOther);
}

// Programs in folders of a PATH, each of which may be a plain mpirun of either MPI.
class RankStarterSearch : public testing::Test {
 protected:
  std::string add(const std::string& name, const std::string& version = "") {
    const std::filesystem::path program = directory_.write(name, "");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    versions_[program.string()] = version;
    return program.string();
  }

  RankStarter find(MpiEngine engine) const {
    const std::string at = directory_.path().string();
    return find_rank_starter(engine, at + "/none:" + at + "/first:" + at + "/second",
                             [this](const std::string& program) { return versions_.at(program); });
  }

 private:
  const TestDirectory directory_;
  std::map<std::string, std::string> versions_;
};

TEST_F(RankStarterSearch, TakesTheOneOfItsMpi) {
  EXPECT_EQ(find(MpiEngine::kOpenMpi).program, "");
  const std::string mpirun = add("second/mpirun", kOpenMpiProgram);
  EXPECT_EQ(find(MpiEngine::kOpenMpi).program, mpirun);
  EXPECT_EQ(find(MpiEngine::kMpich).program, "");
  EXPECT_EQ(find(MpiEngine::kMpich).of_others, Words{mpirun});
  EXPECT_EQ(find(MpiEngine::kOther).program, mpirun);
  const std::string hydra = add("second/mpiexec.hydra");
  const std::string open_mpi = add("second/mpirun.openmpi");
  EXPECT_EQ(find(MpiEngine::kMpich).program, hydra);
  EXPECT_EQ(find(MpiEngine::kOpenMpi).program, open_mpi);
}

// An earlier folder of the PATH counts before a later one, whatever the program's name.
TEST_F(RankStarterSearch, TakesTheFirstFolder) {
  add("second/mpirun.openmpi");
  const std::string hydra = add("second/mpirun.mpich");
  const std::string first = add("first/mpirun", kOpenMpiProgram);
  EXPECT_EQ(find(MpiEngine::kOpenMpi).program, first);
  EXPECT_EQ(find(MpiEngine::kMpich).program, hydra);
}

// What does not say is taken at its name.
TEST_F(RankStarterSearch, TakesAScript) {
  const std::string script = add("first/mpirun", "");
  EXPECT_EQ(find(MpiEngine::kOpenMpi).program, script);
  EXPECT_EQ(find(MpiEngine::kMpich).program, script);
}

TEST(RankStarterWords, AreThoseOfEachMpi) {
  const TestDirectory directory;
  const std::string hosts = directory.write("hosts", "a slots=2\nb slots=3  # large\n").string();
  EXPECT_EQ(rank_starter_words(MpiEngine::kOpenMpi, "mpirun", ""), Words{"mpirun"});
  EXPECT_EQ(rank_starter_words(MpiEngine::kOpenMpi, "mpirun", hosts), (Words{"mpirun", "--hostfile", hosts}));
  EXPECT_EQ(rank_starter_words(MpiEngine::kMpich, "mpiexec.hydra", ""),
            (Words{"mpiexec.hydra", "-bind-to", "none"}));
  EXPECT_EQ(rank_starter_words(MpiEngine::kMpich, "mpiexec.hydra", hosts),
            (Words{"mpiexec.hydra", "-bind-to", "none", "-hosts", "a:2,b:3"}));
}

// Both Open MPIs refuse root and more ranks than processors otherwise, and bind ranks; each reads variables of its own.
TEST(RankStarterVariables, AreThoseOfEachMpi) {
  std::map<std::string, std::string> open_mpi;
  for (const auto& [name, value] : rank_starter_variables(MpiEngine::kOpenMpi)) open_mpi[name] = value;
  for (const char* name :
       {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"})
    EXPECT_EQ(open_mpi[name], "1") << name;
  EXPECT_EQ(open_mpi["PRTE_MCA_rmaps_default_mapping_policy"], "slot:oversubscribe");
  EXPECT_EQ(open_mpi["OMPI_MCA_hwloc_base_binding_policy"], "none");
  EXPECT_EQ(open_mpi["PRTE_MCA_hwloc_default_binding_policy"], "none");
  EXPECT_TRUE(rank_starter_variables(MpiEngine::kMpich).empty());
  EXPECT_EQ(rank_starter_variables(MpiEngine::kOther).size(), open_mpi.size());
}

}  // namespace
}  // namespace shoehorn
