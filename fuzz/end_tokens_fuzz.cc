// eos_token_id of generation_config.json (generate/end_tokens.h): tokens that the model has.
#include "base/error.h"
#include "fuzz/reader.h"
#include "generate/end_tokens.h"

namespace shoehorn::fuzz {
namespace {

void fuzz_end_tokens(std::string_view input) {
  constexpr int64_t kVocabulary = 1000;
  static const InputDirectory directory;
  directory.write("generation_config.json", input);
  for (const int32_t token : end_tokens_of(directory.path(), kVocabulary))
    CHECK(token >= 0 && token < kVocabulary, "token {}", token);
}

const Registration kEndTokensReader("end_tokens", fuzz_end_tokens);

}  // namespace
}  // namespace shoehorn::fuzz
