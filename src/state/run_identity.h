// What decides the numbers of a run and is not among its arguments: the content of its data, the files of its
// tokenizer, the weights under its adapters, and the machine. Checkpoints keep it, so that a run that goes on
// from one can tell whether it is the same (state/resume_changes.h).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "graph/state_table.h"
#include "plan/machine_profile.h"

namespace shoehorn {

// Contents are hashes of base/content_hash.h; an empty one is of something that the run has not, or that a
// checkpoint of an older version does not say.
struct RunIdentity {
  int64_t training_samples = 0;
  std::string training_data = {};
  std::string evaluation_data = {};
  std::map<std::string, std::string> companions = {};  // by file name
  std::string base_weights = {};                       // of a run with adapters
  std::string machine = {};                            // instruction set and library of products

  bool operator==(const RunIdentity&) const = default;
};

// Reads the companions and, where it is not empty, the directory `base` of the weights that adapters go with.
RunIdentity run_identity(const Dataset& training, const Dataset& evaluation,
                         const std::vector<std::filesystem::path>& companions,
                         const std::filesystem::path& base, const StateTable& state,
                         const MachineProfile& machine);

}  // namespace shoehorn
