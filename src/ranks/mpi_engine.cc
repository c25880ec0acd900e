#include "ranks/mpi_engine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "io/file.h"
#include "ranks/hostfile.h"
#include "ranks/opened_library.h"
#include "ranks/rank_launcher.h"

namespace shoehorn {

namespace {

constexpr const char* kPlainName = "mpirun";

}  // namespace

Mpi mpi_of(std::string_view version) {
  const auto says = [version](std::string_view word) { return version.find(word) != std::string_view::npos; };
  Mpi mpi;
  if (says("Open MPI")) mpi.engine = MpiEngine::kOpenMpi;
  if (version.starts_with("MPICH") || version.starts_with("HYDRA")) mpi.engine = MpiEngine::kMpich;
  std::istringstream words(std::string(version.substr(0, version.find_first_of(",\n"))));
  for (std::string word; words >> word;) {
    if (word != "Version:") mpi.name += (mpi.name.empty() ? "" : " ") + word;
  }
  return mpi;
}

OpenedMpi open_mpi() {
  OpenedLibrary opened = open_library(kMpiLibraryName, kMpiLibraryFunction);
  const auto function = reinterpret_cast<const ShoehornMpiLibrary* (*)(int)>(opened.function);
  if (function == nullptr) return {.reason = opened.reason};
  const ShoehornMpiLibrary* library = function(kMpiInterfaceVersion);
  if (library == nullptr) return {.reason = fmt::format("{} of another version", opened.path.string())};
  return {.library = library};
}

std::vector<std::string> names_of_rank_starters(MpiEngine engine) {
  switch (engine) {
    case MpiEngine::kOpenMpi:
      return {"mpirun.openmpi", kPlainName};
    case MpiEngine::kMpich:
      return {"mpiexec.hydra", "mpirun.mpich", kPlainName};
    case MpiEngine::kOther:
      break;
  }
  return {kPlainName};
}

RankStarter find_rank_starter(MpiEngine engine, const std::string& folders,
                              const std::function<std::string(const std::string& program)>& version_of) {
  RankStarter found;
  const auto is_of_another = [&](const std::string& program) {
    if (engine == MpiEngine::kOther) return false;
    const MpiEngine its = mpi_of(version_of(program)).engine;
    return its != engine && its != MpiEngine::kOther;
  };
  for (size_t begin = 0; begin < folders.size();) {
    const size_t end = std::min(folders.find(':', begin), folders.size());
    for (const std::string& name : names_of_rank_starters(engine)) {
      const std::string program = folders.substr(begin, end - begin) + "/" + name;
      if (access(program.c_str(), X_OK) != 0) continue;
      if (name != kPlainName || !is_of_another(program)) {
        found.program = program;
        return found;
      }
      found.of_others.push_back(program);
    }
    begin = end + 1;
  }
  return found;
}

std::vector<std::string> rank_starter_words(MpiEngine engine, const std::string& program,
                                            const std::string& hostfile) {
  std::vector<std::string> words = {program};
  if (engine == MpiEngine::kMpich) {
    // Its ranks may be root and more than the processors; its hostfile has no slots.
    words.insert(words.end(), {"-bind-to", "none"});
    if (!hostfile.empty())
      words.insert(words.end(), {"-hosts", hosts_with_slots(read_text_file(hostfile), hostfile)});
  } else if (!hostfile.empty()) {
    words.insert(words.end(), {"--hostfile", hostfile});
  }
  return words;
}

std::vector<std::string> words_of_one_rank_on(MpiEngine engine, const std::string& program,
                                              const std::string& host) {
  return {program, engine == MpiEngine::kMpich ? "-hosts" : "--host", host, "-n", "1"};
}

// Open MPI 4 reads OMPI_MCA_…, Open MPI 5 PRTE_MCA_…. Open MPI 4 waits for the whole timeout, twice, before it ends, also where
// all ranks have ended: it is short enough for a run whose rank was killed to be over within ten seconds, and long enough
// to save a checkpoint of a small model.
std::vector<std::pair<const char*, const char*>> rank_starter_variables(MpiEngine engine) {
  if (engine == MpiEngine::kMpich) return {};
  return {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
          {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
          {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
          // By slot, or two ranks share the first host.
          {"PRTE_MCA_rmaps_default_mapping_policy", "slot:oversubscribe"},
          {"OMPI_MCA_hwloc_base_binding_policy", "none"},
          {"PRTE_MCA_hwloc_default_binding_policy", "none"},
          // Ranks on hosts that ssh reaches have no other variables of the launcher.
          {"OMPI_MCA_mca_base_env_list", kLauncherVariable},
          {"OMPI_MCA_odls_base_sigkill_timeout", "4"},
          {"PRTE_MCA_odls_base_sigkill_timeout", "4"}};
}

std::vector<std::pair<const char*, const char*>> lost_host_variables(MpiEngine engine) {
  if (engine == MpiEngine::kMpich) return {};
  return {{"OMPI_MCA_oob_tcp_keepalive_time", "10"},  {"OMPI_MCA_oob_tcp_keepalive_intvl", "5"},
          {"OMPI_MCA_oob_tcp_keepalive_probes", "4"}, {"PRTE_MCA_oob_tcp_keepalive_time", "10"},
          {"PRTE_MCA_oob_tcp_keepalive_intvl", "5"},  {"PRTE_MCA_oob_tcp_keepalive_probes", "4"}};
}

}  // namespace shoehorn
