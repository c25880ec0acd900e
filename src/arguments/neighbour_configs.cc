#include "arguments/neighbour_configs.h"

#include <nlohmann/json.hpp>

#include "arguments/argument_table.h"
#include "arguments/deepspeed_config.h"
#include "arguments/fsdp_config.h"
#include "base/error.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

bool is_json_text(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && text[begin] == '{';
}

// A file's object, or that of a text; `source`: what errors call it.
nlohmann::json read_object(const std::string& text, const std::string& flag, std::string& source) {
  source = is_json_text(text) ? flag : text;
  return is_json_text(text) ? parse_json(text, flag) : read_json(text);
}

}  // namespace

NeighbourSettings apply_neighbour_configs(TrainingArguments& args, const IsGiven& is_given) {
  NeighbourSettings settings;
  if (!args.deepspeed.empty() && !args.fsdp.empty()) {
    throw user_error("[--fsdp] expected one of deepspeed and fsdp, got both; either says what ranks share");
  }
  std::string source;
  if (!args.deepspeed.empty()) {
    const nlohmann::json object = read_object(args.deepspeed, "--deepspeed", source);
    settings = apply_deepspeed_config(read_deepspeed_config(object, source), args, is_given);
    args.deepspeed.clear();
  }
  if (args.fsdp.empty() && !args.fsdp_config.empty())
    throw user_error("[--fsdp_config] expected --fsdp with it, got none");
  if (!args.fsdp.empty()) {
    nlohmann::json object = nlohmann::json::object();
    source = "--fsdp";
    if (!args.fsdp_config.empty()) object = read_object(args.fsdp_config, "--fsdp_config", source);
    settings = apply_fsdp_config(read_fsdp_config(args.fsdp, object, source), args, is_given);
    args.fsdp.clear();
    args.fsdp_config.clear();
  }
  return settings;
}

TrainingArguments with_neighbour_configs(TrainingArguments args) {
  const TrainingArguments standard;
  const TrainingArguments given = args;
  apply_neighbour_configs(args, [&](std::string_view flag) {
    const ArgumentSpec* spec = find_argument(flag);
    CHECK(spec != nullptr, "no flag {}", flag);
    return argument_value(*spec, given) != argument_value(*spec, standard);
  });
  return args;
}

}  // namespace shoehorn
