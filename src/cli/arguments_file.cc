#include "cli/arguments_file.h"

#include <filesystem>

#include "io/json_file.h"
#include "state/checkpoint_record.h"

namespace shoehorn {

void ArgumentsFile::on_train_begin(const TrainingArguments& args, const TrainerState& /*state*/,
                                   TrainerControl& /*control*/) {
  const std::filesystem::path directory = args.output_dir;
  if (args.resume_from_checkpoint.empty()) {
    for (const char* results : {"all_results.json", "train_results.json", "eval_results.json"})
      std::filesystem::remove(directory / results);
  }
  write_json_atomic(directory / kArgumentsFile, given_);
}

}  // namespace shoehorn
