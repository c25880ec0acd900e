// The value of --fsdp, a line, and behind it the file of --fsdp_config (arguments/fsdp_config.h).
#include <algorithm>
#include <nlohmann/json.hpp>

#include "arguments/fsdp_config.h"
#include "base/error.h"
#include "fuzz/reader.h"
#include "io/json_file.h"

namespace shoehorn::fuzz {
namespace {

void fuzz_fsdp_config(std::string_view input) {
  const size_t line = std::min(input.find('\n'), input.size());
  const std::string_view rest = input.substr(std::min(line + 1, input.size()));
  const FsdpConfig config = read_fsdp_config(
      std::string(input.substr(0, line)), parse_json(rest.empty() ? "{}" : rest, "fsdp.json"), "fsdp.json");
  TrainingArguments args;
  apply_fsdp_config(config, args, [](std::string_view) { return false; });
  CHECK(args.zero_stage == config.zero_stage, "stage {}", args.zero_stage);
  validate(args);
}

const Registration kFsdpConfigReader("fsdp_config", fuzz_fsdp_config);

}  // namespace
}  // namespace shoehorn::fuzz
