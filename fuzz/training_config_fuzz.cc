// A configuration file, as --config names it, and training_args.json (arguments/argument_table.h).
#include <nlohmann/json.hpp>

#include "fuzz/argument_properties.h"
#include "fuzz/reader.h"
#include "io/json_file.h"

namespace shoehorn::fuzz {
namespace {

void fuzz_training_config(std::string_view input) {
  const TrainingArguments arguments =
      resolved(training_arguments_from_json(parse_json(input, "config.json"), "config.json"));
  validate(arguments);
  check_arguments(arguments);
}

const Registration kTrainingConfigReader("training_config", fuzz_training_config);

}  // namespace
}  // namespace shoehorn::fuzz
