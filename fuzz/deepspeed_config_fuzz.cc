// The file of --deepspeed (arguments/deepspeed_config.h).
#include <algorithm>
#include <nlohmann/json.hpp>

#include "arguments/deepspeed_config.h"
#include "base/error.h"
#include "fuzz/argument_properties.h"
#include "fuzz/reader.h"
#include "io/json_file.h"

namespace shoehorn::fuzz {
namespace {

// What the file sets is what it says: given as flags beside it, nothing is a mismatch.
void fuzz_deepspeed_config(std::string_view input) {
  const DeepspeedConfig config = read_deepspeed_config(parse_json(input, "ds_config.json"), "ds_config.json");
  TrainingArguments args;
  const NeighbourSettings set = apply_deepspeed_config(config, args, [](std::string_view) { return false; });
  TrainingArguments again = args;
  try {
    apply_deepspeed_config(config, again, [&](std::string_view flag) {
      return std::find(set.flags.begin(), set.flags.end(), flag) != set.flags.end();
    });
  } catch (const UserError& mismatch) {
    CHECK(false, "{}", mismatch.what());
  }
  CHECK(again == args, "applied twice it says something else");
  const TrainingArguments arguments = resolved(args);
  validate(arguments);
  check_arguments(arguments);
}

const Registration kDeepspeedConfigReader("deepspeed_config", fuzz_deepspeed_config);

}  // namespace
}  // namespace shoehorn::fuzz
