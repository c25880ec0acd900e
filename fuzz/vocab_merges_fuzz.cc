// vocab.json, merges.txt and tokenizer_config.json (tokenize/vocab_merges_files.h), with a NUL byte between them, and a
// text through the tokenizer.
#include <algorithm>

#include "fuzz/reader.h"
#include "fuzz/tokenizer_properties.h"

namespace shoehorn::fuzz {
namespace {

void fuzz_vocab_merges(std::string_view input) {
  static const InputDirectory directory;
  for (const char* name : {"vocab.json", "merges.txt", "tokenizer_config.json"}) {
    const size_t end = std::min(input.find('\0'), input.size());
    directory.write(name, input.substr(0, end));
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(directory.path());
  check_encodings(*tokenizer, "Hello, world! <mask>\tCaf\u00e9 \u4f60\u597d unaffable</s>");
}

const Registration kVocabMergesReader("vocab_merges", fuzz_vocab_merges);

}  // namespace
}  // namespace shoehorn::fuzz
