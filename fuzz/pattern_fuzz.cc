// Regular expressions, as --freeze takes them (base/pattern.h), searched in names of parameters.
#include "base/pattern.h"
#include "fuzz/reader.h"

namespace shoehorn::fuzz {
namespace {

void fuzz_pattern(std::string_view input) {
  const Pattern pattern(std::string(input), "--freeze");
  for (const char* name :
       {"bert.embeddings.word_embeddings.weight", "bert.encoder.layer.10.attention.self.query.bias",
        "classifier.weight", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", ""})
    pattern.is_found_in(name);
}

const Registration kPatternReader("pattern", fuzz_pattern);

}  // namespace
}  // namespace shoehorn::fuzz
