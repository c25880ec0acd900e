#include "tokenize/onig_expression.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <new>

#include "base/error.h"
#include "base/format.h"
#include "base/utf8.h"
#include "tokenize/unicode.h"

namespace shoehorn {
namespace {

constexpr size_t kLongestExpression = 10'000;
constexpr size_t kShownBytes = 200;
constexpr uint32_t kDeepestParentheses = 250;
constexpr uint32_t kMaxSteps = 200'000;
constexpr uint32_t kMaxHeapKibibytes = 64 * 1024;
constexpr size_t kFirstJitStackBytes = 32 * 1024;
constexpr size_t kMaxJitStackBytes = 1 << 20;

// The 25 characters of \s.
constexpr std::string_view kSpaces =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kNotSpaces =
    R"(\x{0}-\x{8}\x{E}-\x{1F}\x{21}-\x{84}\x{86}-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027})"
    R"(\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{10FFFF})";

// PCRE2 knows the letters and numbers of Unicode 14 at least; those of 15 and 16 are named to it.
constexpr std::string_view kLetters =
    R"(\p{L}\x{1C89}-\x{1C8A}\x{A7CB}-\x{A7CD}\x{A7DA}-\x{A7DC}\x{105C0}-\x{105F3}\x{10D4A}-\x{10D65})"
    R"(\x{10D6F}-\x{10D85}\x{10EC2}-\x{10EC4}\x{1123F}-\x{11240}\x{11380}-\x{11389}\x{1138B}\x{1138E})"
    R"(\x{11390}-\x{113B5}\x{113B7}\x{113D1}\x{113D3}\x{11BC0}-\x{11BE0}\x{11F02}\x{11F04}-\x{11F10})"
    R"(\x{11F12}-\x{11F33}\x{1342F}\x{13441}-\x{13446}\x{13460}-\x{143FA}\x{16100}-\x{1611D}\x{16D40}-\x{16D6C})"
    R"(\x{18CFF}\x{1B132}\x{1B155}\x{1DF25}-\x{1DF2A}\x{1E030}-\x{1E06D}\x{1E4D0}-\x{1E4EB}\x{1E5D0}-\x{1E5ED})"
    R"(\x{1E5F0}\x{2B739}\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})";
constexpr std::string_view kNumbers =
    R"(\p{N}\x{10D40}-\x{10D49}\x{116D0}-\x{116E3}\x{11BF0}-\x{11BF9}\x{11F50}-\x{11F59}\x{16130}-\x{16139})"
    R"(\x{16D70}-\x{16D79}\x{1CCF0}-\x{1CCF9}\x{1D2C0}-\x{1D2D3}\x{1E4F0}-\x{1E4F9}\x{1E5F1}-\x{1E5FA})";

std::string reason_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Walks over an expression and writes PCRE2's.
class Translation {
 public:
  Translation(std::string_view expression, std::string_view what) : expression_(expression), what_(what) {}

  std::string run() {
    while (at_ < expression_.size()) {
      const char c = expression_[at_];
      if (c == '\\')
        translate_escape(false);
      else if (c == '[')
        translate_class();
      else if (c == '(')
        translate_group();
      else if (c == '{')
        translate_counts();
      else if (c == '^' || c == '$')
        take(1, c == '^' ? "(?m:^)" : "(?m:$)");
      else
        take(1);
    }
    return std::move(result_);
  }

 private:
  [[noreturn]] void refuse(std::string_view construct) const {
    throw user_error(
        "[{} {}] expected an expression that Oniguruma and PCRE2 read alike, got {} at its byte {}; it is not "
        "translated yet",
        what_, shorten(std::string(expression_), kShownBytes), construct, at_);
  }
  char peek(size_t ahead) const { return at_ + ahead < expression_.size() ? expression_[at_ + ahead] : '\0'; }
  bool follows(std::string_view part) const { return expression_.substr(at_).starts_with(part); }
  void take(size_t count) { take(count, expression_.substr(at_, count)); }
  void take(size_t count, std::string_view written) {
    result_ += written;
    at_ += count;
  }
  // A set of characters, whose bytes inside brackets are `members`.
  void take_set(size_t count, std::string_view members, bool in_class, bool negated) {
    if (in_class) return take(count, members);
    take(count, fmt::format("[{}{}]", negated ? "^" : "", members));
  }

  void translate_escape(bool in_class) {
    const char c = peek(1);
    switch (c) {
      case 's':
        return take_set(2, kSpaces, in_class, false);
      case 'S':
        return take_set(2, in_class ? kNotSpaces : kSpaces, in_class, true);
      case 'p':
      case 'P':
        return translate_property(in_class);
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'a':
      case 'e':
        return take(2);
      case 'x':
        return translate_code(peek(2) == '{' ? 3 : 2, peek(2) == '{' ? 8 : 2, peek(2) == '{');
      case 'u':
        return translate_code(2, 4, false);
      case 'A':
      case 'z':
        if (!in_class) return take(2);
        break;
      default:
        break;
    }
    const bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c);
    if (c == '\0' || is_word) refuse(fmt::format("\\{}", c));
    take(2);
  }

  // `skipped` bytes, then up to `most` hexadecimal digits, then the brace.
  void translate_code(size_t skipped, size_t most, bool braced) {
    size_t count = 0;
    while (count < most && std::isxdigit(static_cast<unsigned char>(peek(skipped + count))) != 0) ++count;
    if (count == 0 || (braced && peek(skipped + count) != '}') || (!braced && most == 4 && count != 4))
      refuse("a code point that is not written out");
    const std::string digits(expression_.substr(at_ + skipped, count));
    take(skipped + count + (braced ? 1 : 0), fmt::format("\\x{{{}}}", digits));
  }

  void translate_property(bool in_class) {
    const size_t end = expression_.find('}', at_);
    if (peek(2) != '{' || end == std::string_view::npos) refuse("a property without braces");
    std::string_view name = expression_.substr(at_ + 3, end - at_ - 3);
    bool negated = peek(1) == 'P';
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    const bool letter = name == "L" || name == "Letter";
    if (!letter && name != "N" && name != "Number") refuse(fmt::format("the property {}", name));
    if (negated && in_class) refuse("a negated property in a class");
    take_set(end + 1 - at_, letter ? kLetters : kNumbers, in_class, negated);
  }

  // Classes in a class are their union, if they are not negated.
  void translate_class() {
    take(1);
    if (peek(0) == '^') take(1);
    if (peek(0) == ']') refuse("a class that begins with ]");
    int depth = 1;
    while (depth > 0) {
      if (at_ == expression_.size()) refuse("a class without an end");
      const char c = expression_[at_];
      if (c == '\\') {
        translate_escape(true);
      } else if (c == '[') {
        if (peek(1) == ':' || peek(1) == '^' || peek(1) == ']') refuse("such a class in a class");
        ++depth;
        take(1, "");
      } else if (c == ']') {
        --depth;
        take(1, depth == 0 ? "]" : "");
      } else if (follows("&&")) {
        refuse("&&");
      } else {
        take(1);
      }
    }
  }

  void translate_group() {
    if (peek(1) != '?') return take(1, "(?:");
    for (const std::string_view start : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"})
      if (follows(start)) return take(start.size());
    if (at_ == 0 && follows("(?i)")) return take(4);
    refuse(fmt::format("the group {}", expression_.substr(at_, 4)));
  }

  // {n}, {n,}, {n,m}; {,m} counts from 0 in Ruby. Anything else is text.
  void translate_counts() {
    size_t length = 1;
    while (is_digit(peek(length))) ++length;
    const bool has_least = length > 1;
    const bool has_comma = peek(length) == ',';
    if (has_comma) ++length;
    const size_t most_at = length;
    while (is_digit(peek(length))) ++length;
    const bool is_count = peek(length) == '}' && (has_least || length > most_at);
    if (!is_count) return take(1, "\\{");
    ++length;
    if (peek(length) == '+') refuse("a + behind a count");
    const std::string written(expression_.substr(at_ + 1, length - 1));
    take(length, fmt::format("{{{}{}", has_least ? "" : "0", written));
  }

  std::string_view expression_;
  std::string_view what_;
  size_t at_ = 0;
  std::string result_;
};

template <typename T>
T* allocated(T* object) {
  if (object == nullptr) throw std::bad_alloc();
  return object;
}

struct Deleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

// What a match needs of its thread.
struct MatchMemory {
  std::unique_ptr<pcre2_match_data, Deleter> match{allocated(pcre2_match_data_create(1, nullptr))};
  std::unique_ptr<pcre2_match_context, Deleter> limits{allocated(pcre2_match_context_create(nullptr))};
  std::unique_ptr<pcre2_jit_stack, Deleter> stack{
      pcre2_jit_stack_create(kFirstJitStackBytes, kMaxJitStackBytes, nullptr)};

  MatchMemory() {
    pcre2_jit_stack_assign(limits.get(), nullptr, stack.get());
    pcre2_set_match_limit(limits.get(), kMaxSteps);
    pcre2_set_depth_limit(limits.get(), kMaxSteps);
    pcre2_set_heap_limit(limits.get(), kMaxHeapKibibytes);
  }
};

}  // namespace

struct OnigExpression::Compiled {
  std::unique_ptr<pcre2_code, Deleter> code;
};

std::string translate_onig(std::string_view expression, std::string_view what) {
  if (!is_valid_utf8(expression))
    throw user_error("[{}] expected an expression in UTF-8, got other bytes", what);
  if (expression.size() > kLongestExpression)
    throw user_error("[{}] expected an expression of at most {} bytes, got {}", what, kLongestExpression,
                     expression.size());
  return Translation(expression, what).run();
}

OnigExpression::OnigExpression(std::string expression, std::string what)
    : expression_(std::move(expression)), what_(std::move(what)) {
  const std::string translated = translate_onig(expression_, what_);
  const std::unique_ptr<pcre2_compile_context, Deleter> limits(
      allocated(pcre2_compile_context_create(nullptr)));
  pcre2_set_parens_nest_limit(limits.get(), kDeepestParentheses);
  pcre2_set_newline(limits.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto compiled = std::make_unique<Compiled>();
  compiled->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                     PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C, &error, &offset, limits.get()));
  if (!compiled->code) {
    throw user_error("[{} {}] expected a regular expression, got '{}'", what_,
                     shorten(expression_, kShownBytes), reason_of(error));
  }
  // Where there is no compiler for this processor, matching is slower and the same.
  pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE);
  compiled_ = std::move(compiled);
}

OnigExpression::~OnigExpression() = default;

void OnigExpression::find(std::string_view text, TextRange whole, std::vector<TextRange>& matches) const {
  static thread_local const MatchMemory memory;
  pcre2_match_data* match = memory.match.get();
  const std::string_view searched = text.substr(whole.begin, whole.size());
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(match);
  size_t last = 0;
  size_t last_match_end = PCRE2_UNSET;
  while (last <= searched.size()) {
    const int result = pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(searched.data()),
                                   searched.size(), last, PCRE2_NO_UTF_CHECK, match, memory.limits.get());
    if (result == PCRE2_ERROR_NOMATCH) return;
    if (result == PCRE2_ERROR_NOMEMORY) throw std::bad_alloc();
    if (result < 0)
      throw user_error(
          "[{} {}] expected an expression that is decided in {} steps, got '{}' for a text of {} bytes; repeats "
          "of repeats such as (a*)* take this long",
          what_, shorten(expression_, kShownBytes), kMaxSteps, reason_of(result), searched.size());
    const size_t begin = found[0];
    const size_t end = found[1];
    if (begin == end && end == last_match_end) {
      if (last == searched.size()) return;
      decode_utf8(searched, last);
      continue;
    }
    // Look behind with \K would put the end before the start; it is not translated.
    last = last_match_end = end;
    matches.push_back({whole.begin + begin, whole.begin + end});
  }
}

}  // namespace shoehorn
