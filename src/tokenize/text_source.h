// Texts that a tokenizer is trained on. A source hands them on in batches, so that they may be larger than
// memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace shoehorn {

// Text i is bytes[ends[i - 1], ends[i]). It need not be valid UTF-8.
struct TextBatch {
  std::string bytes;
  std::vector<size_t> ends;

  void append(std::string_view text) {
    bytes.append(text);
    ends.push_back(bytes.size());
  }
  void clear() {
    bytes.clear();
    ends.clear();
  }
};

class TextSource {
 public:
  // Batches have about this size, unless one text is longer.
  static constexpr int64_t kBatchBytes = int64_t{16} << 20;

  virtual ~TextSource() = default;
  // Calls take(batch) until there are no more texts. What it throws ends the reading. Returns how many ill-formed
  // stretches of UTF-8 the source itself replaced.
  virtual int64_t read(const std::function<void(const TextBatch& batch)>& take) = 0;
};

// Each line of a file is a text, with its line end, as in train() of Hugging Face's `tokenizers`. A byte order mark
// of UTF-8 is text too. The file may be compressed, or standard input (io/input_stream.h), so read() may be called once.
// UserError: as open_input(), or UTF-16; in read(): a line of more than kMaxLineBytes, or damaged compressed bytes.
// SystemError: the file cannot be read.
constexpr int64_t kMaxLineBytes = int64_t{1} << 30;
std::unique_ptr<TextSource> open_text_file(const std::filesystem::path& path,
                                           int64_t batch_bytes = TextSource::kBatchBytes);

// Texts in memory, which the caller owns.
std::unique_ptr<TextSource> text_source(const std::vector<std::string>& texts);

}  // namespace shoehorn
