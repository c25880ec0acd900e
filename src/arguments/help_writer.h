// Writes help: headings, paragraphs, and flags in two columns, wrapped at the width of the style.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arguments/argument_help.h"

namespace shoehorn {

class HelpWriter {
 public:
  // `command`: whose help it is, where the table's flags have a text of their own there.
  HelpWriter(const HelpStyle& style, std::optional<Command> command) : style_(style), command_(command) {}

  // The second column begins behind the longest of these flags; where the lines are too short for two columns, what is
  // said of a flag begins below it.
  void align(const std::vector<const ArgumentSpec*>& rows);

  // A line between an empty one and what follows.
  void append_heading(std::string_view heading);
  // An empty line and the text, wrapped.
  void append_paragraph(std::string_view words);
  // The text, wrapped, with two spaces before each line.
  void append_indented(std::string_view words);
  // The text as it is.
  void append_text(std::string_view text) { text_ += text; }
  // The flag, and what it does; `note` is put before that, in parentheses.
  void append_flag(const ArgumentSpec& row, std::string_view note = "");

  const std::string& text() const { return text_; }

 private:
  void append_wrapped(size_t column, size_t indent, std::string_view words);

  HelpStyle style_;
  std::optional<Command> command_;
  size_t indent_ = 0;
  std::string text_;
};

}  // namespace shoehorn
