#include "tokenize/text_source.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"
#include "io/input_stream.h"

namespace shoehorn {
namespace {

class TextFile final : public TextSource {
 public:
  TextFile(const std::filesystem::path& path, int64_t batch_bytes)
      : input_(open_input(path)), name_(input_name(path)), batch_bytes_(static_cast<size_t>(batch_bytes)) {
    constexpr size_t kMarkBytes = 2;
    append_bytes(start_, kMarkBytes);
    if (start_ == "\xff\xfe" || start_ == "\xfe\xff")
      throw user_error("[{}] expected UTF-8, got a UTF-16 byte order mark; convert the file to UTF-8", name_);
  }

  int64_t read(const std::function<void(const TextBatch& batch)>& take) override {
    TextBatch batch;
    std::string rest = std::exchange(start_, {});  // the beginning of a line that goes on
    size_t searched = 0;                           // bytes of it that have no line end
    for (bool has_more = true; has_more;) {
      batch.clear();
      batch.bytes.swap(rest);
      has_more = append_bytes(batch.bytes, std::max(batch_bytes_, batch.bytes.size()));
      find_lines(batch, searched);
      const size_t end = batch.ends.empty() ? 0 : batch.ends.back();
      rest.assign(batch.bytes, end);
      searched = rest.size();
      batch.bytes.resize(end);
      if (static_cast<int64_t>(rest.size()) > kMaxLineBytes)
        throw user_error("[{}] expected lines of at most {} bytes, got a longer one; is this a text file?",
                         name_, kMaxLineBytes);
      if (!batch.ends.empty()) take(batch);
    }
    if (rest.empty()) return 0;
    batch.clear();
    batch.append(rest);
    take(batch);
    return 0;
  }

 private:
  // Appends the next `count` bytes, or those that are left. Returns whether there may be more.
  bool append_bytes(std::string& text, size_t count) {
    size_t size = text.size();
    const size_t wanted = size + count;
    text.resize(wanted);
    while (size < wanted) {
      const size_t got = input_->read(std::as_writable_bytes(std::span(text).subspan(size)));
      if (got == 0) break;
      size += got;
    }
    text.resize(size);
    return size == wanted;
  }

  // Up to `searched` there is no line end.
  static void find_lines(TextBatch& batch, size_t searched) {
    for (size_t at = searched; (at = batch.bytes.find('\n', at)) != std::string::npos;)
      batch.ends.push_back(++at);
  }

  std::unique_ptr<InputStream> input_;
  std::string name_;
  size_t batch_bytes_;
  std::string start_;  // bytes that were read to look for a byte order mark
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
