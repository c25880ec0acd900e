// vocab.txt (tokenize/tokenizer_file.h), and a text through it.
#include "fuzz/reader.h"
#include "fuzz/tokenizer_properties.h"

namespace shoehorn::fuzz {
namespace {

void fuzz_vocab_txt(std::string_view input) {
  static const InputDirectory directory;
  directory.write("vocab.txt", input);
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(directory.path());
  check_encodings(*tokenizer, "Hello, world! [MASK]\tCaf\u00e9 \u4f60\u597d unaffable[SEP]");
}

const Registration kVocabTxtReader("vocab_txt", fuzz_vocab_txt);

}  // namespace
}  // namespace shoehorn::fuzz
