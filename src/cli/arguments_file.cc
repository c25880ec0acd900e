#include "cli/arguments_file.h"

#include <filesystem>

#include "io/json_file.h"
#include "state/checkpoint_record.h"

namespace shoehorn {

void ArgumentsFile::on_train_begin(const TrainingArguments& args, const TrainerState& /*state*/,
                                   TrainerControl& /*control*/) {
  write_json_atomic(std::filesystem::path(args.output_dir) / kArgumentsFile, given_);
}

}  // namespace shoehorn
