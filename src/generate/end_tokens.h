// The tokens that end a text, as a model's files name them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace shoehorn {

// `eos_token_id` of generation_config.json, or else of config.json: a token, a list of them, or nothing. A token from
// `vocab_size` on, as a config has that was made with the defaults of its class, is left out: no text reaches it.
// UserError naming the file if `eos_token_id` is anything else.
std::vector<int32_t> end_tokens_of(const std::filesystem::path& directory, int64_t vocab_size);

}  // namespace shoehorn
