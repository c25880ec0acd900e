// A text on its way through a tokenizer's chain. With alignment, each byte also has an origin: the range of
// the original text that it stands for. Offsets of tokens come from these.
//
// A change is a list of the new code points, each of which replaces an old one or is inserted. Hugging Face's
// `tokenizers` describes changes in the same way, so the offsets are the same. All bytes of a code point
// share an origin; an inserted one gets the origin of the byte before it.
//
// Without alignment every function changes the bytes only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenize/text_range.h"

namespace shoehorn {

// A code point of the changed text. `kind` 0: it replaces the next old code point. -n: it replaces the next
// one, and the n old ones behind that are dropped. 1: it is inserted.
struct CodePointChange {
  int32_t code_point;
  int32_t kind;
};

class AlignedText {
 public:
  // Starts with `text`, valid UTF-8, which begins at byte `begin` of the original text.
  void assign(std::string_view text, size_t begin, bool aligned);
  // Starts with a part of another text.
  void assign(const AlignedText& whole, TextRange part);

  const std::string& bytes() const { return bytes_; }
  bool is_aligned() const { return aligned_; }
  // One per byte; empty without alignment.
  const std::vector<TextRange>& origins() const { return origins_; }
  // The first byte's position in the original text. Without alignment it is right only while nothing before
  // it changed.
  size_t begin() const { return begin_; }

  // Replaces the text by `changes`. The first `dropped` old code points are dropped.
  void transform(std::span<const CodePointChange> changes, size_t dropped = 0);
  // Drops each code point for which is_dropped() is true.
  void drop(bool (*is_dropped)(int32_t code_point));
  // Inserts `prefix` before the text. An empty text stays empty.
  void prepend(std::string_view prefix);
  // Replaces each match by `content`. Matches are in order and do not overlap.
  void replace(std::span<const TextRange> matches, std::string_view content);
  // Appends a part of another text, which must be aligned if this one is. Used to rebuild a text in pieces.
  void append(const AlignedText& other, TextRange part);
  // Appends new bytes, all with this origin.
  void append(std::string_view bytes, TextRange origin);
  // Empties the text. It keeps the begin and the alignment of `other`.
  void clear_as(const AlignedText& other);

  // The range of the original text that `part` (not empty) stands for. Aligned texts only.
  TextRange origin_of(TextRange part) const {
    return {origins_[part.begin].begin, origins_[part.end - 1].end};
  }

 private:
  std::string bytes_;
  std::vector<TextRange> origins_;
  size_t begin_ = 0;
  bool aligned_ = false;
  // Buffers of transform and replace, kept to avoid allocations.
  std::string new_bytes_;
  std::vector<TextRange> new_origins_;
};

// A text and the pieces that it is cut into.
struct PieceText {
  AlignedText text;
  std::vector<TextRange> pieces;  // byte ranges in `text`: in order, none empty

  std::string_view operator[](size_t i) const { return view(pieces[i]); }
  std::string_view view(TextRange range) const {
    return std::string_view(text.bytes()).substr(range.begin, range.size());
  }

  // Makes the whole text one piece; an empty text has no pieces.
  void start() {
    pieces.clear();
    if (!text.bytes().empty()) pieces.push_back({0, text.bytes().size()});
  }
  // Replaces each piece by the ranges that cut_piece(piece, ranges) appends.
  template <typename CutPiece>
  void cut_each(CutPiece&& cut_piece) {
    new_pieces_.clear();
    for (const TextRange& piece : pieces) cut_piece(piece, new_pieces_);
    pieces.swap(new_pieces_);
  }
  // Replaces each piece by what change_piece(piece, text) appends to a new text.
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
  // Kept to avoid allocations.
  std::vector<TextRange> new_pieces_;
  AlignedText new_text_;
};

}  // namespace shoehorn
