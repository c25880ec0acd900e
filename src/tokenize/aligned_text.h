// A text on its way through the chain of a tokenizer, and, where offsets are asked for, the place in the
// original text that each byte of it stands for.
//
// A change of the text is written as Hugging Face's `tokenizers` writes it, so that offsets come out the same:
// a list of the new code points, each of which replaces one or is new. An origin belongs to a whole code point;
// a new one has the origin of the byte before it.
//
// Without origins every function is a change of the bytes alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenize/text_range.h"

namespace shoehorn {

// A code point of the changed text. `kind` 0: it replaces the next one; -n: it replaces the next one, and the n
// after that are dropped; 1: it is new.
struct CodePointChange {
  int32_t code_point;
  int32_t kind;
};

class AlignedText {
 public:
  // `text`, which begins at byte `begin` of the original text; valid UTF-8.
  void assign(std::string_view text, size_t begin, bool aligned);
  // A part of another text.
  void assign(const AlignedText& whole, TextRange part);

  const std::string& bytes() const { return bytes_; }
  bool is_aligned() const { return aligned_; }
  // For each byte; empty without alignment.
  const std::vector<TextRange>& origins() const { return origins_; }
  // Where in the original text this one begins. Known without alignment only while nothing has changed before it.
  size_t begin() const { return begin_; }

  // The text becomes `changes`; the first `dropped` code points are left out.
  void transform(std::span<const CodePointChange> changes, size_t dropped = 0);
  // Drops each code point for which `is_dropped`.
  void drop(bool (*is_dropped)(int32_t code_point));
  // Puts `prefix` before a text that is not empty.
  void prepend(std::string_view prefix);
  // Puts `content` in the place of each match. The matches are in order and do not overlap.
  void replace(std::span<const TextRange> matches, std::string_view content);
  // Appends a part of another text, which has origins where this one has: the way to rebuild a text in pieces.
  void append(const AlignedText& other, TextRange part);
  // Appends new bytes, each with this origin.
  void append(std::string_view bytes, TextRange origin);
  // Empties the text, which begins where `other` does and has origins if that has.
  void clear_as(const AlignedText& other);

  // The stretch of the original text that a part, not empty, stands for; with alignment.
  TextRange origin_of(TextRange part) const {
    return {origins_[part.begin].begin, origins_[part.end - 1].end};
  }

 private:
  std::string bytes_;
  std::vector<TextRange> origins_;
  size_t begin_ = 0;
  bool aligned_ = false;
  // What transform and replace build, kept for its memory.
  std::string new_bytes_;
  std::vector<TextRange> new_origins_;
};

// A text that is cut into pieces.
struct PieceText {
  AlignedText text;
  std::vector<TextRange> pieces;  // of the text's bytes: in order, none empty

  std::string_view operator[](size_t i) const { return view(pieces[i]); }
  std::string_view view(TextRange range) const {
    return std::string_view(text.bytes()).substr(range.begin, range.size());
  }

  // The whole text is one piece, or none where it is empty.
  void start() {
    pieces.clear();
    if (!text.bytes().empty()) pieces.push_back({0, text.bytes().size()});
  }
  // Each piece becomes the ranges that cut_piece(piece, ranges) appends.
  template <typename CutPiece>
  void cut_each(CutPiece&& cut_piece) {
    new_pieces_.clear();
    for (const TextRange& piece : pieces) cut_piece(piece, new_pieces_);
    pieces.swap(new_pieces_);
  }
  // Each piece becomes what change_piece(piece, text) appends to a new text.
  template <typename ChangePiece>
  void change_each(ChangePiece&& change_piece) {
    new_text_.clear_as(text);
    for (TextRange& piece : pieces) {
      const size_t begin = new_text_.bytes().size();
      change_piece(piece, new_text_);
      piece = {begin, new_text_.bytes().size()};
    }
    std::swap(text, new_text_);
  }

 private:
  // Kept for their memory.
  std::vector<TextRange> new_pieces_;
  AlignedText new_text_;
};

}  // namespace shoehorn
