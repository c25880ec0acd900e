// What determines the numbers of a run besides its arguments: the content of its data, its tokenizer's files,
// the weights under its adapters, and the machine. Checkpoints store it, so that a resumed run can tell
// whether it is the same run (state/resume_changes.h).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "graph/state_table.h"
#include "plan/machine_profile.h"

namespace shoehorn {

// Contents are hashes (base/content_hash.h). An empty one means that the run has no such content, or that an
// older checkpoint does not record it.
struct RunIdentity {
  int64_t training_samples = 0;
  std::string training_data = {};
  std::string evaluation_data = {};
  std::map<std::string, std::string> companions = {};  // by file name
  std::string base_weights = {};                       // runs with adapters
  std::string machine = {};                            // instruction set and library of products

  bool operator==(const RunIdentity&) const = default;
};

// Of the tensors of that directory which the model's parameters take, whatever else is in its files and however they are
// split. A sample has of each tensor the first and the last mebibyte.
std::string content_of_weights(const std::filesystem::path& directory, const StateTable& state,
                               bool is_sample = false);

// Reads the companions and, if `base` is not empty, that directory of weights under the adapters. `on_progress`: of the contents
// of the data sets (Dataset::content_hash).
RunIdentity run_identity(const Dataset& training, const Dataset& evaluation,
                         const std::vector<std::filesystem::path>& companions,
                         const std::filesystem::path& base, const StateTable& state,
                         const MachineProfile& machine, const ByteProgress& on_progress = {});

}  // namespace shoehorn
