// tokenizer.json (tokenize/tokenizer_file.h), and a text through what it describes.
#include "fuzz/reader.h"
#include "fuzz/tokenizer_properties.h"

namespace shoehorn::fuzz {
namespace {

void fuzz_tokenizer_json(std::string_view input) {
  static const InputDirectory directory;
  directory.write("tokenizer.json", input);
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(directory.path());
  check_encodings(*tokenizer, "Hello, world! [MASK]\tCaf\u00e9 \u4f60\u597d unaffable[SEP]");
}

const Registration kTokenizerJsonReader("tokenizer_json", fuzz_tokenizer_json);

}  // namespace
}  // namespace shoehorn::fuzz
