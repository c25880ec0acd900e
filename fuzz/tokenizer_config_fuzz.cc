// tokenizer_config.json and special_tokens_map.json, the same bytes for both, beside a vocab.txt
// (tokenize/tokenizer_file.h).
#include "fuzz/reader.h"
#include "fuzz/tokenizer_properties.h"

namespace shoehorn::fuzz {
namespace {

void fuzz_tokenizer_config(std::string_view input) {
  static const InputDirectory directory;
  directory.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nworld\n##s\n,\ncafe\n");
  directory.write("tokenizer_config.json", input);
  directory.write("special_tokens_map.json", input);
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(directory.path());
  check_encodings(*tokenizer, "Hello, worlds! [MASK]\tCaf\u00e9 \u4f60\u597d <extra>[SEP]");
}

const Registration kTokenizerConfigReader("tokenizer_config", fuzz_tokenizer_config);

}  // namespace
}  // namespace shoehorn::fuzz
