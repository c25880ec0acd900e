#include "generate/end_tokens.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/file.h"
#include "io/json_file.h"

namespace shoehorn {

std::vector<int32_t> end_tokens_of(const std::filesystem::path& directory, int64_t vocab_size) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    if (!path_exists(directory / name)) continue;
    const nlohmann::json config = read_json(directory / name);
    const std::string file = (directory / name).string();
    if (!config.is_object())
      throw user_error("[{}] expected a JSON object, got {}", file, config.type_name());
    const nlohmann::json end = config.value("eos_token_id", nlohmann::json());
    if (end.is_null()) continue;
    std::vector<int32_t> tokens;
    for (const nlohmann::json& token : end.is_array() ? end : nlohmann::json::array({end})) {
      const std::optional<int64_t> id = whole_number(token);
      if (!id || *id < 0) {
        throw user_error("[{}] expected 'eos_token_id' to be null, a token or a list of tokens, got {}", file,
                         end.dump());
      }
      if (*id < vocab_size) tokens.push_back(static_cast<int32_t>(*id));
    }
    return tokens;
  }
  return {};
}

}  // namespace shoehorn
