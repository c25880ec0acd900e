#include "base/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <new>

#include "base/error.h"
#include "base/format.h"

namespace shoehorn {

namespace {

constexpr size_t kLongestExpression = 10'000;
constexpr size_t kShownBytes = 200;
constexpr uint32_t kDeepestParentheses = 250;
constexpr uint32_t kMaxSteps = 100'000;
constexpr uint32_t kMaxHeapKibibytes = 16 * 1024;

// As in ECMAScript, `$` is the end of the text alone, [] and [^] are classes and \u is a code. The expression
// itself can neither ask for UTF-8 nor step inside a character.
constexpr uint32_t kOptions = PCRE2_DOLLAR_ENDONLY | PCRE2_ALLOW_EMPTY_CLASS | PCRE2_ALT_BSUX |
                              PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_NEVER_BACKSLASH_C;

std::string reason_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

struct Deleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

template <typename T>
std::unique_ptr<T, Deleter> allocated(T* object) {
  if (object == nullptr) throw std::bad_alloc();
  return std::unique_ptr<T, Deleter>(object);
}

}  // namespace

struct Pattern::Compiled {
  std::unique_ptr<pcre2_code, Deleter> code;
  std::unique_ptr<pcre2_match_data, Deleter> match = allocated(pcre2_match_data_create(1, nullptr));
  std::unique_ptr<pcre2_match_context, Deleter> limits = allocated(pcre2_match_context_create(nullptr));
};

Pattern::Pattern(std::string expression, std::string what)
    : expression_(std::move(expression)), what_(std::move(what)), compiled_(std::make_unique<Compiled>()) {
  const auto limits = allocated(pcre2_compile_context_create(nullptr));
  pcre2_set_max_pattern_length(limits.get(), kLongestExpression);
  pcre2_set_parens_nest_limit(limits.get(), kDeepestParentheses);
  int error = 0;
  PCRE2_SIZE offset = 0;
  compiled_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression_.data()), expression_.size(),
                                      kOptions, &error, &offset, limits.get()));
  if (!compiled_->code) {
    throw user_error("[{} {}] expected a regular expression, got '{}' at its byte {}", what_,
                     shorten(expression_, kShownBytes), reason_of(error), offset);
  }
  pcre2_set_match_limit(compiled_->limits.get(), kMaxSteps);
  pcre2_set_depth_limit(compiled_->limits.get(), kMaxSteps);
  pcre2_set_heap_limit(compiled_->limits.get(), kMaxHeapKibibytes);
}

Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

bool Pattern::is_found_in(std::string_view text) const {
  const int result = pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                 text.size(), 0, 0, compiled_->match.get(), compiled_->limits.get());
  // 0: it matches, and its groups have more places than are kept.
  if (result >= 0) return true;
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result == PCRE2_ERROR_NOMEMORY) throw std::bad_alloc();
  throw user_error(
      "[{} {}] expected an expression that is decided in {} steps, got '{}' at the text '{}'; repeats of "
      "repeats such as (a*)* take this long",
      what_, shorten(expression_, kShownBytes), kMaxSteps, reason_of(result), text);
}

}  // namespace shoehorn
