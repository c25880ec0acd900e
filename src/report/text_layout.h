// How much room texts take on a plot, and which of them meet. Lengths are CSS pixels of the unscaled plot.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shoehorn {

inline constexpr double kFontSize = 12;
inline constexpr double kTitleSize = 14;
inline constexpr double kTextLine = 15;  // from one line of a text to the next

// The width of a text in one line. The reader's system chooses the font: the widths are those of DejaVu Sans, wider than
// what most systems have.
double text_width(std::string_view text, double font_size = kFontSize);

// The lines of a text, none wider than `width`, at least one: breaks are at spaces, and within a word that is wider.
std::vector<std::string> wrapped(std::string_view text, double width, double font_size = kFontSize);

double widest(const std::vector<std::string>& lines, double font_size = kFontSize);

struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;

  bool meets(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

// Where lines of text stand whose first baseline is at `baseline` and whose left end is at `left`.
Box box_of(const std::vector<std::string>& lines, double left, double baseline);

}  // namespace shoehorn
