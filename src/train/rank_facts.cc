#include "train/rank_facts.h"

#include <nlohmann/json.hpp>

#include "base/child_process.h"
#include "io/file_content.h"

namespace shoehorn {

std::vector<SharedFact> facts_of_arguments(const TrainingArguments& args) {
  nlohmann::json arguments = to_json(args);
  for (const char* own : {"num_threads", "memory_budget", "log_level", "report_to", "dump_program"})
    arguments.erase(own);
  std::vector<SharedFact> facts;
  for (const auto& [name, value] : arguments.items()) facts.push_back({"--" + name, value.dump()});
  return facts;
}

void check_arguments_alike(Communicator& ranks, const TrainingArguments& args) {
  static const std::string program = content_of_file(own_program());
  check_alike(ranks, {{"the program's file", program}});
  check_alike(ranks, facts_of_arguments(args));
}

}  // namespace shoehorn
