#include "train/rank_facts.h"

#include <nlohmann/json.hpp>

#include "base/child_process.h"
#include "io/file_content.h"
#include "ops/dump.h"
#include "state/adapter_tensors.h"
#include "state/run_identity.h"

namespace shoehorn {

std::vector<SharedFact> facts_of_arguments(const TrainingArguments& args) {
  nlohmann::json arguments = to_json(args);
  for (const char* own : {"num_threads", "memory_budget", "log_level", "log_level_replica", "disable_tqdm",
                          "report_to", "dump_program"})
    arguments.erase(own);
  std::vector<SharedFact> facts;
  for (const auto& [name, value] : arguments.items()) facts.push_back({"--" + name, value.dump()});
  return facts;
}

std::vector<SharedFact> facts_of_model(const Session& session, const std::filesystem::path& weights,
                                       const std::filesystem::path& adapter) {
  const RankOptions& shares = session.options().step.ranks;
  const bool reads_a_part = shares.stage() == 3;
  std::string programs;
  for (const Program& program : session.family().programs)
    programs += shares.are_replicas() ? dump_collectives(program) : dump(program);
  return {{"the weights", weights.empty() ? "" : content_of_weights(weights, session.state(), reads_a_part)},
          {"the adapters", adapter.empty() ? "" : content_of_file(adapter / kAdapterWeightsName)},
          {"the steps' programs", programs}};
}

void check_arguments_alike(Communicator& ranks, const TrainingArguments& args, const std::string& search) {
  static const std::string program = content_of_file(own_program());
  check_alike(ranks, {{"the program's file", program}});
  std::vector<SharedFact> facts = facts_of_arguments(args);
  facts.push_back({"--fit with its flags", search});
  check_alike(ranks, facts);
}

}  // namespace shoehorn
