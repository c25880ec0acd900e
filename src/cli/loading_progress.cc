#include "cli/loading_progress.h"

#include "base/stop_request.h"
#include "cli/notice_printer.h"

namespace shoehorn {

namespace {

std::string_view name_of(CacheWork work) {
  switch (work) {
    case CacheWork::kHashTexts:
      return "hash texts";
    case CacheWork::kVerifyTokens:
      return "verify tokens";
    case CacheWork::kHashTokens:
      return "hash tokens";
  }
  return "read";
}

}  // namespace

LoadingProgress::LoadingProgress(const ProgressOptions& options) : bars_(options) {}

LoadingProgress::LoadingProgress(const TrainingArguments& args) : LoadingProgress(progress_options(args)) {}

void LoadingProgress::show(std::string_view work, ProgressUnit unit, int64_t done, int64_t total) const {
  throw_if_stop_requested();
  bars_.show(work, unit, done, total);
}

// How many rows and texts there are is not known before they are read.
std::function<void(int64_t rows)> LoadingProgress::of_rows_read() const {
  return [own = *this](int64_t rows) { own.show("read", ProgressUnit::kTexts, rows, 0); };
}

std::function<void(int64_t done, int64_t rows)> LoadingProgress::of_rows() const {
  return
      [own = *this](int64_t done, int64_t rows) { own.show("tokenize", ProgressUnit::kTexts, done, rows); };
}

std::function<void(int64_t texts)> LoadingProgress::of_texts() const {
  return [own = *this](int64_t texts) { own.show("tokenize", ProgressUnit::kTexts, texts, 0); };
}

std::function<void(CacheWork work, int64_t done, int64_t bytes)> LoadingProgress::of_cache() const {
  return [own = *this](CacheWork work, int64_t done, int64_t bytes) {
    own.show(name_of(work), ProgressUnit::kBytes, done, bytes);
  };
}

std::function<void(int64_t done, int64_t samples)> LoadingProgress::of_labels() const {
  return [own = *this](int64_t done, int64_t samples) {
    own.show("count labels", ProgressUnit::kTexts, done, samples);
  };
}

}  // namespace shoehorn
