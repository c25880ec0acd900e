#include "tokenize/text_source.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "io/file.h"

namespace shoehorn {
namespace {

class TextFile final : public TextSource {
 public:
  TextFile(const std::filesystem::path& path, int64_t batch_bytes)
      : file_(ReadOnlyFile::open(path)), batch_bytes_(static_cast<size_t>(batch_bytes)) {
    std::string start(static_cast<size_t>(std::min<int64_t>(2, file_.bytes())), '\0');
    file_.read_at(0, std::as_writable_bytes(std::span(start)));
    if (start == "\xff\xfe" || start == "\xfe\xff")
      throw user_error("[{}] expected UTF-8, got a UTF-16 byte order mark; convert the file to UTF-8",
                       path.string());
  }

  int64_t read(const std::function<void(const TextBatch& batch)>& take) override {
    TextBatch batch;
    std::string rest;  // the beginning of a line that goes on
    for (int64_t offset = 0; offset < file_.bytes();) {
      batch.clear();
      batch.bytes.swap(rest);
      const size_t searched = batch.bytes.size();
      const int64_t count =
          std::min(file_.bytes() - offset, static_cast<int64_t>(std::max(batch_bytes_, searched)));
      batch.bytes.resize(searched + static_cast<size_t>(count));
      file_.read_at(offset, std::as_writable_bytes(std::span(batch.bytes).subspan(searched)));
      offset += count;
      find_lines(batch, searched);
      const size_t end = batch.ends.empty() ? 0 : batch.ends.back();
      rest.assign(batch.bytes, end);
      batch.bytes.resize(end);
      if (static_cast<int64_t>(rest.size()) > kMaxLineBytes)
        throw user_error("[{}] expected lines of at most {} bytes, got a longer one; is this a text file?",
                         file_.path().string(), kMaxLineBytes);
      if (!batch.ends.empty()) take(batch);
    }
    if (rest.empty()) return 0;
    batch.clear();
    batch.append(rest);
    take(batch);
    return 0;
  }

 private:
  // Up to `searched` there is no line end.
  static void find_lines(TextBatch& batch, size_t searched) {
    for (size_t at = searched; (at = batch.bytes.find('\n', at)) != std::string::npos;)
      batch.ends.push_back(++at);
  }

  ReadOnlyFile file_;
  size_t batch_bytes_;
};

class TextsInMemory final : public TextSource {
 public:
  explicit TextsInMemory(const std::vector<std::string>& texts) : texts_(texts) {}

  int64_t read(const std::function<void(const TextBatch& batch)>& take) override {
    TextBatch batch;
    for (const std::string& text : texts_) {
      batch.append(text);
      if (static_cast<int64_t>(batch.bytes.size()) < kBatchBytes) continue;
      take(batch);
      batch.clear();
    }
    if (!batch.ends.empty()) take(batch);
    return 0;
  }

 private:
  const std::vector<std::string>& texts_;
};

}  // namespace

std::unique_ptr<TextSource> open_text_file(const std::filesystem::path& path, int64_t batch_bytes) {
  return std::make_unique<TextFile>(path, batch_bytes);
}

std::unique_ptr<TextSource> text_source(const std::vector<std::string>& texts) {
  return std::make_unique<TextsInMemory>(texts);
}

}  // namespace shoehorn
