#include "report/text_layout.h"

#include <algorithm>

#include "base/utf8.h"

namespace shoehorn {

namespace {

constexpr double kAscent = 11.5;  // of a line, above its baseline
constexpr double kDescent = 3;

// The width of a character in units of the font's size.
double width_of(char character) {
  constexpr std::string_view kNarrow = " .,:;'|!ijlIJ";
  constexpr std::string_view kSlim = "-()[]/rtf";
  constexpr std::string_view kWide = "mwMW%+=<>@&#";
  if (kNarrow.find(character) != std::string_view::npos) return 0.34;
  if (kSlim.find(character) != std::string_view::npos) return 0.42;
  if (kWide.find(character) != std::string_view::npos) return 0.99;
  if (character >= 'A' && character <= 'Z') return 0.78;
  return static_cast<unsigned char>(character) < 0x80 ? 0.64 : 1.0;
}

// The part of a word that fits into `width`, in whole characters; at least one.
std::string_view beginning(std::string_view word, double width, double font_size) {
  size_t end = 0;
  while (end < word.size()) {
    size_t next = end + 1;
    while (next < word.size() && is_utf8_continuation(word[next])) ++next;
    if (end > 0 && text_width(word.substr(0, next), font_size) > width) break;
    end = next;
  }
  return word.substr(0, end);
}

}  // namespace

double text_width(std::string_view text, double font_size) {
  double width = 0;
  for (const char character : text) {
    if (!is_utf8_continuation(character)) width += width_of(character);
  }
  return width * font_size;
}

std::vector<std::string> wrapped(std::string_view text, double width, double font_size) {
  std::vector<std::string> lines(1);
  for (size_t begin = 0; begin < text.size();) {
    const size_t space = std::min(text.find(' ', begin), text.size());
    std::string_view word = text.substr(begin, space - begin);
    begin = space + 1;
    const std::string joined =
        lines.back().empty() ? std::string(word) : lines.back() + ' ' + std::string(word);
    if (text_width(joined, font_size) <= width) {
      lines.back() = joined;
      continue;
    }
    if (!lines.back().empty()) lines.emplace_back();
    while (text_width(word, font_size) > width) {
      const std::string_view part = beginning(word, width, font_size);
      if (part.size() == word.size()) break;
      lines.back() = part;
      lines.emplace_back();
      word.remove_prefix(part.size());
    }
    lines.back() = word;
  }
  return lines;
}

double widest(const std::vector<std::string>& lines, double font_size) {
  double width = 0;
  for (const std::string& line : lines) width = std::max(width, text_width(line, font_size));
  return width;
}

Box box_of(const std::vector<std::string>& lines, double left, double baseline) {
  return {left, baseline - kAscent, left + widest(lines),
          baseline + kTextLine * static_cast<double>(lines.size() - 1) + kDescent};
}

}  // namespace shoehorn
