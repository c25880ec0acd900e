// The keys of a DeepSpeed configuration (ds_config.json), each with what becomes of it here. The table has the keys of
// DeepSpeed 0.19; DeepSpeed itself takes a misspelt key in silence.
//
//   read           becomes an argument (deepspeed_config.h)
//   no effect      tunes DeepSpeed's own buffers, or what is always so here; the run says that it has no effect
//   off only       asks for what is not here: taken where it asks for nothing, else refused by name
//   switch         a section with "enabled": refused where that is true; of its other keys only those are that may be meant for it
//
// A value of null is no value, and so is "auto", which leaves a setting to the flags.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace shoehorn {

struct DeepspeedKeys {
  std::map<std::string, nlohmann::json> values;  // of the keys that are read, by path: "optimizer.params.lr"
  std::vector<std::string> without_effect;       // paths, in the order of the file's sorted keys
};

// Sorts the keys of `object`. UserError "[`source`: path] …" for a key that is unknown (with the nearest known one), of a
// wrong kind, or refused; NotInThisVersion where it asks for what is not built.
DeepspeedKeys sort_deepspeed_keys(const nlohmann::json& object, const std::string& source);

}  // namespace shoehorn
