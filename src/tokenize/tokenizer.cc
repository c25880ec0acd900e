#include "tokenize/tokenizer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/thread_stacks.h"
#include "base/utf8.h"
#include "tokenize/bert_normalizer.h"
#include "tokenize/byte_level.h"
#include "tokenize/byte_pairs.h"
#include "tokenize/character_pre_tokenizers.h"
#include "tokenize/unicode.h"
#include "tokenize/word_piece.h"

namespace shoehorn {
namespace {

// Texts per task of a thread: enough to hide the cost of taking a task, few enough to share the work at the
// end.
constexpr int kTextsPerTurn = 16;

// longest_first: a sequence that fits into its half is kept whole; otherwise the halves are equal, and the
// longer sequence has the odd token.
std::pair<int64_t, int64_t> truncated_lengths(int64_t first, int64_t second, int64_t room) {
  if (room >= first && room - first >= second) return {first, second};
  const int64_t shorter = std::min(first, second);
  const int64_t kept = std::min(shorter, room / 2);
  return first <= second ? std::pair(kept, room - kept) : std::pair(room - kept, kept);
}

template <typename Token>
void cut_to(int64_t length, bool from_left, std::vector<Token>& tokens) {
  const auto begin = tokens.begin();
  if (from_left) {
    tokens.erase(begin, tokens.end() - length);
  } else {
    tokens.erase(begin + length, tokens.end());
  }
}

// Characters of white space at both ends of a token's text, the space of the byte alphabet among them.
std::pair<size_t, size_t> count_spaces(std::string_view token) {
  constexpr int32_t kAlphabetSpace = 0x120;
  size_t leading = 0;
  size_t trailing = 0;
  bool is_leading = true;
  for (size_t position = 0; position < token.size();) {
    const int32_t code_point = decode_utf8(token, position);
    const bool is_space = code_point == kAlphabetSpace || is_whitespace(code_point);
    is_leading = is_leading && is_space;
    if (is_leading) ++leading;
    trailing = is_space ? trailing + 1 : 0;
  }
  return {leading, trailing};
}

// Converts offsets from bytes to code points; one inside a code point counts as its beginning. Offsets beyond
// the text, of tokens that stand for nothing in it, are as in `tokenizers`.
template <typename Token>
void count_in_characters(std::string_view text, std::vector<Token>& tokens) {
  std::vector<size_t> characters(text.size());  // of each byte: its code point's place
  size_t count = 0;
  for (size_t position = 0; position < text.size(); ++count) {
    const size_t begin = position;
    decode_utf8(text, position);
    std::fill(characters.begin() + static_cast<ptrdiff_t>(begin),
              characters.begin() + static_cast<ptrdiff_t>(position), count);
  }
  for (Token& token : tokens) {
    auto& [begin, end] = token.offsets;
    if (begin >= text.size()) continue;
    begin = characters[begin];
    end = end < text.size() ? characters[end] : 1 + (end == text.size() ? characters[end - 1] : begin + 1);
  }
}

}  // namespace

// Buffers of one thread, which grow to the longest text and stay.
struct Tokenizer::Scratch {
  std::vector<int32_t> first;
  std::vector<int32_t> second;
  std::string normalized;
  std::vector<AddedTokenMatcher::Stretch> raw_stretches;
  std::vector<AddedTokenMatcher::Stretch> normalized_stretches;
  BertNormalizer::Scratch marks;
  PieceText pieces;
  AlignedText whole;  // that the pieces are a part of
  std::vector<ModelToken> tokens;
  std::unique_ptr<ModelScratch> model;
};

// A token with its place in the text, and the white space at the ends of its own text.
struct Tokenizer::PlacedToken {
  int32_t id;
  TextRange offsets;
  size_t leading_spaces;
  size_t trailing_spaces;
};

std::unique_ptr<Tokenizer> Tokenizer::load(const std::filesystem::path& model_dir) {
  return std::make_unique<Tokenizer>(read_tokenizer_file(model_dir));
}

Tokenizer::Tokenizer(TokenizerFile file)
    : normalizer_(std::move(file.normalizer)),
      pre_tokenizer_(std::move(file.pre_tokenizer)),
      model_(std::move(file.model)),
      post_processor_(std::move(file.post_processor)),
      decoder_(std::move(file.decoder)) {
  recognise_chain();
  resolve_added_tokens(file);
  raw_tokens_ = std::make_unique<AddedTokenMatcher>(searched_tokens(file.added_tokens, false));
  normalized_tokens_ = std::make_unique<AddedTokenMatcher>(searched_tokens(file.added_tokens, true));
  check_template(post_processor_.single, file.path.string());
  check_template(post_processor_.pair, file.path.string());
  model_max_length_ = file.model_max_length;
  truncates_left_ = file.truncates_left;
  pad_id_ = id_of(file.pad_token);
  cls_id_ = id_of(file.cls_token);
  sep_id_ = id_of(file.sep_token);
  mask_id_ = id_of(file.mask_token);
  eos_id_ = file.eos_token.empty() ? -1 : id_of(file.eos_token);
}

void Tokenizer::recognise_chain() {
  needs_alignment_ = pre_tokenizer_ && pre_tokenizer_->needs_alignment();
  const auto* words = dynamic_cast<const WordPiece*>(model_.get());
  if (words != nullptr && dynamic_cast<const BertPreTokenizer*>(pre_tokenizer_.get()) != nullptr) {
    // Without a normalizer BERT's with nothing to do takes its place.
    if (!normalizer_)
      normalizer_ = std::make_unique<BertNormalizer>(BertNormalizerOptions{false, false, false, false});
    bert_normalizer_ = dynamic_cast<const BertNormalizer*>(normalizer_.get());
    if (bert_normalizer_ != nullptr) word_piece_ = words;
  }
  // The pre-tokenizer is asked first: a model that reads bytes must be given bytes.
  auto* pairs = dynamic_cast<BytePairs*>(model_.get());
  if (pairs != nullptr && pairs->can_read_bytes() && pre_tokenizer_ && pre_tokenizer_->leave_bytes()) {
    pairs->read_bytes();
    reads_bytes_ = true;
  }
}

std::string Tokenizer::normalized_text(const std::string& text) const {
  AlignedText normalized;
  normalized.assign(text, 0, false);
  if (normalizer_) normalizer_->normalize(normalized);
  return normalized.bytes();
}

// As in `tokenizers`: a token of the vocabulary keeps its id, any other is appended. The id in the file must
// agree. Of two entries with the same content the later one counts.
void Tokenizer::resolve_added_tokens(TokenizerFile& file) {
  std::vector<AddedToken> tokens;
  std::map<int32_t, size_t> places;  // in tokens, by id
  std::set<std::string> special_contents;
  for (AddedToken& token : file.added_tokens) {
    if (token.content.empty()) continue;
    int32_t id = id_of(token.content);
    if (id < 0 && file.has_gaps) {
      throw user_error(
          "[{}] expected the added token '{}' in model.vocab too, whose ids have gaps, got none; Hugging "
          "Face's tokenizers would give it an id that another token has",
          file.path.string(), token.content);
    }
    if (id < 0) {
      id = static_cast<int32_t>(vocab_size());
      appended_.push_back(token.content);
      appended_ids_.emplace(token.content, id);
    }
    if (token.id >= 0 && token.id != id)
      throw user_error(
          "[{}] expected the added token '{}' to have the id {}, got {}; ids must follow the vocabulary",
          file.path.string(), token.content, id, token.id);
    token.id = id;
    if (token.special) special_contents.insert(token.content);
    if (token.normalized) {
      std::string normalized = normalized_text(token.content);
      if (normalized.empty())
        throw user_error("[{}] expected the added token '{}' to have a normalized form, got an empty one",
                         file.path.string(), token.content);
      token.content = std::move(normalized);
    }
    const auto [place, is_new] = places.emplace(id, tokens.size());
    if (is_new) tokens.emplace_back();
    tokens[place->second] = std::move(token);
  }
  std::set<std::pair<bool, std::string_view>> contents;
  for (const AddedToken& token : tokens) {
    if (!contents.emplace(token.normalized, token.content).second)
      throw user_error("[{}] expected added tokens to differ once normalized, got '{}' twice",
                       file.path.string(), token.content);
  }
  // As in `tokenizers` a special token is known by its text, which is not its own where it was normalized.
  for (const AddedToken& token : tokens)
    added_[token.id] = {token.content, special_contents.contains(token.content)};
  file.added_tokens = std::move(tokens);
}

std::vector<AddedToken> Tokenizer::searched_tokens(const std::vector<AddedToken>& tokens, bool normalized) {
  std::vector<AddedToken> searched;
  std::ranges::copy_if(tokens, std::back_inserter(searched),
                       [&](const AddedToken& token) { return token.normalized == normalized; });
  return searched;
}

void Tokenizer::check_template(std::vector<TemplatePiece>& pieces, const std::string& file) const {
  for (TemplatePiece& piece : pieces) {
    if (piece.kind != TemplatePiece::Kind::kSpecial) continue;
    if (piece.ids.empty()) piece.ids.push_back(id_of(piece.token));
    for (int32_t id : piece.ids)
      if (id < 0 || id >= vocab_size())
        throw user_error("[{}] expected the id of the special token '{}' to be in 0..{}, got {}", file,
                         piece.token, vocab_size() - 1, id);
  }
}

int32_t Tokenizer::id_of(std::string_view token) const {
  const int32_t id = model_->vocabulary().id_of(token);
  if (id >= 0) return id;
  const auto appended = appended_ids_.find(token);
  return appended == appended_ids_.end() ? -1 : appended->second;
}

std::string_view Tokenizer::token_of(int64_t id) const {
  if (id < 0 || id >= vocab_size())
    throw user_error("[token id] expected 0..{}, got {}; is this the tokenizer of the model?",
                     vocab_size() - 1, id);
  const Vocabulary& vocabulary = model_->vocabulary();
  return id < vocabulary.size() ? vocabulary.token_of(id) : appended_[id - vocabulary.size()];
}

int64_t Tokenizer::added_token_count(bool is_pair) const {
  int64_t count = 0;
  for (const TemplatePiece& piece : is_pair ? post_processor_.pair : post_processor_.single)
    count += static_cast<int64_t>(piece.ids.size());
  return count;
}

void Tokenizer::append_words(std::string_view normalized, Scratch& scratch, std::vector<int32_t>& ids) const {
  auto& hashes = static_cast<WordPiece::Scratch&>(*scratch.model);
  size_t position = 0;
  for (std::string_view word = next_word(normalized, position); !word.empty();
       word = next_word(normalized, position))
    word_piece_->append_pieces(word, hashes, ids);
}

void Tokenizer::append_normalized(std::string_view text, Scratch& scratch, std::vector<int32_t>& ids) const {
  scratch.normalized.clear();
  bert_normalizer_->append_normalized(text, scratch.marks, scratch.normalized);
  const std::string_view normalized = scratch.normalized;
  if (normalized_tokens_->empty()) return append_words(normalized, scratch, ids);
  normalized_tokens_->split(normalized, scratch.normalized_stretches);
  for (const auto& [begin, end, id] : scratch.normalized_stretches) {
    if (id >= 0)
      ids.push_back(id);
    else
      append_words(normalized.substr(begin, end - begin), scratch, ids);
  }
}

template <typename OnPieces, typename OnToken>
void Tokenizer::walk_chain(std::string_view text, TextRange range, bool aligned, Scratch& scratch,
                           OnPieces&& on_pieces, OnToken&& on_token) const {
  PieceText& pieces = scratch.pieces;
  const auto cut = [&] {
    pieces.start();
    if (pre_tokenizer_) pre_tokenizer_->split(pieces);
    on_pieces(pieces);
  };
  AlignedText& whole = normalized_tokens_->empty() ? pieces.text : scratch.whole;
  whole.assign(text.substr(range.begin, range.size()), range.begin, aligned);
  if (normalizer_) normalizer_->normalize(whole);
  if (normalized_tokens_->empty()) return cut();
  normalized_tokens_->split(whole.bytes(), scratch.normalized_stretches);
  for (const auto& [begin, end, id] : scratch.normalized_stretches) {
    if (id >= 0) {
      on_token(id, whole, TextRange{begin, end});
      continue;
    }
    pieces.text.assign(whole, {begin, end});
    cut();
  }
}

void Tokenizer::append_text(std::string_view text, size_t most_ids, Scratch& scratch,
                            std::vector<int32_t>& ids) const {
  std::string replaced;
  if (!is_valid_utf8(text)) text = replaced = replace_invalid_utf8(text);
  raw_tokens_->split(text, scratch.raw_stretches);
  for (const auto& [begin, end, id] : scratch.raw_stretches) {
    if (ids.size() >= most_ids) return;
    if (id >= 0)
      ids.push_back(id);
    else if (word_piece_ != nullptr)
      append_normalized(text.substr(begin, end - begin), scratch, ids);
    else
      walk_chain(
          text, {begin, end}, needs_alignment_, scratch,
          [&](const PieceText& pieces) { model_->append_ids(pieces, most_ids, *scratch.model, ids); },
          [&](int32_t token, const AlignedText&, TextRange) { ids.push_back(token); });
  }
}

Encoding Tokenizer::encode_text(const TextPair& text, int64_t max_length, Scratch& scratch) const {
  const std::vector<TemplatePiece>& pieces = text.second ? post_processor_.pair : post_processor_.single;
  const int64_t room =
      max_length == kNoTruncation ? kNoTruncation : max_length - added_token_count(text.second.has_value());
  // Of a pair it counts how long each is, even where it will be cut; and the end of a text is known behind all of it.
  const size_t most_ids = text.second || truncates_left_ ? SIZE_MAX : static_cast<size_t>(room);
  scratch.first.clear();
  scratch.second.clear();
  append_text(text.first, most_ids, scratch, scratch.first);
  if (text.second) append_text(*text.second, most_ids, scratch, scratch.second);
  const auto [first_length, second_length] = truncated_lengths(
      static_cast<int64_t>(scratch.first.size()), static_cast<int64_t>(scratch.second.size()), room);
  cut_to(first_length, truncates_left_, scratch.first);
  cut_to(second_length, truncates_left_, scratch.second);

  Encoding encoding;
  size_t length = 0;
  const auto ids_of = [&](const TemplatePiece& piece) -> const std::vector<int32_t>& {
    return piece.kind == TemplatePiece::Kind::kFirst    ? scratch.first
           : piece.kind == TemplatePiece::Kind::kSecond ? scratch.second
                                                        : piece.ids;
  };
  for (const TemplatePiece& piece : pieces) length += ids_of(piece).size();
  encoding.input_ids.reserve(length);
  encoding.token_type_ids.reserve(length);
  for (const TemplatePiece& piece : pieces) {
    const std::vector<int32_t>& ids = ids_of(piece);
    encoding.input_ids.insert(encoding.input_ids.end(), ids.begin(), ids.end());
    encoding.token_type_ids.insert(encoding.token_type_ids.end(), ids.size(), piece.type_id);
  }
  return encoding;
}

std::vector<Tokenizer::PlacedToken> Tokenizer::placed_tokens(std::string_view text, Scratch& scratch) const {
  std::vector<PlacedToken> tokens;
  raw_tokens_->split(text, scratch.raw_stretches);
  for (const auto& [begin, end, id] : scratch.raw_stretches) {
    if (id >= 0) {
      const auto [leading, trailing] = count_spaces(text.substr(begin, end - begin));
      tokens.push_back({id, {begin, end}, leading, trailing});
      continue;
    }
    walk_chain(
        text, {begin, end}, true, scratch,
        [&](const PieceText& pieces) { append_placed(pieces, scratch, tokens); },
        [&](int32_t token, const AlignedText& whole, TextRange range) {
          const auto [leading, trailing] =
              count_spaces(std::string_view(whole.bytes()).substr(range.begin, range.size()));
          tokens.push_back({token, whole.origin_of(range), leading, trailing});
        });
  }
  return tokens;
}

void Tokenizer::append_placed(const PieceText& pieces, Scratch& scratch,
                              std::vector<PlacedToken>& tokens) const {
  std::vector<TextRange> origins;
  for (size_t i = 0; i < pieces.pieces.size(); ++i) {
    scratch.tokens.clear();
    model_->append_tokens(pieces[i], *scratch.model, scratch.tokens);
    // Lengths count the bytes that the model's tokens are written in.
    origins.clear();
    for (size_t at = pieces.pieces[i].begin; at < pieces.pieces[i].end; ++at) {
      const auto byte = static_cast<uint8_t>(pieces.text.bytes()[at]);
      origins.insert(origins.end(), reads_bytes_ ? alphabet_character(byte).size() : 1,
                     pieces.text.origins()[at]);
    }
    // What the model dropped has no length, so that tokens behind it seem to stand further left, as in `tokenizers`.
    size_t begin = 0;
    for (const auto& [id, length] : scratch.tokens) {
      const size_t end = begin + length;
      const TextRange offsets = end <= origins.size() ? TextRange{origins[begin].begin, origins[end - 1].end}
                                                      : TextRange{begin, end};
      const auto [leading, trailing] = count_spaces(model_->vocabulary().token_of(id));
      tokens.push_back({id, offsets, leading, trailing});
      begin = end;
    }
  }
}

void Tokenizer::trim_offsets(std::vector<PlacedToken>& tokens) const {
  for (const OffsetTrim& trim : post_processor_.trims) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      auto& [id, offsets, leading_spaces, trailing_spaces] = tokens[i];
      const bool is_first = i == 0 || offsets.begin == 0;
      const bool is_prefix = is_first && trim.keeps_prefix_space && leading_spaces == 1;
      if (!is_prefix) offsets.begin = std::min(offsets.begin + leading_spaces, offsets.end);
      if (trailing_spaces > 0 && offsets.end >= trailing_spaces)
        offsets.end = std::max(offsets.end - trailing_spaces, offsets.begin);
    }
  }
}

EncodingWithOffsets Tokenizer::encode_with_offsets(const TextPair& text, int64_t max_length,
                                                   OffsetUnit unit) const {
  const bool is_pair = text.second.has_value();
  check_max_length(is_pair, max_length);
  const std::unique_ptr<Scratch> scratch = make_scratch(0);
  const auto place = [&](std::string_view sequence) {
    const std::string valid = replace_invalid_utf8(sequence);
    std::vector<PlacedToken> tokens = placed_tokens(valid, *scratch);
    if (unit == OffsetUnit::kCharacter) count_in_characters(valid, tokens);
    return tokens;
  };
  std::vector<PlacedToken> first = place(text.first);
  std::vector<PlacedToken> second = is_pair ? place(*text.second) : std::vector<PlacedToken>();
  const int64_t room = max_length == kNoTruncation ? kNoTruncation : max_length - added_token_count(is_pair);
  const auto [first_length, second_length] = truncated_lengths(std::ssize(first), std::ssize(second), room);
  cut_to(first_length, truncates_left_, first);
  cut_to(second_length, truncates_left_, second);
  trim_offsets(first);
  trim_offsets(second);

  EncodingWithOffsets result;
  for (const TemplatePiece& piece : is_pair ? post_processor_.pair : post_processor_.single) {
    const auto append = [&](int32_t id, TextRange offsets) {
      result.encoding.input_ids.push_back(id);
      result.encoding.token_type_ids.push_back(piece.type_id);
      result.offsets.push_back(offsets);
    };
    for (const int32_t id : piece.ids) append(id, {0, 0});
    if (piece.kind == TemplatePiece::Kind::kSpecial) continue;
    for (const PlacedToken& token : piece.kind == TemplatePiece::Kind::kFirst ? first : second)
      append(token.id, token.offsets);
  }
  return result;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  for (const int32_t id : ids) {
    const std::string_view token = token_of(id);
    const auto added = added_.find(id);
    if (added == added_.end()) {
      // An id between those of tokens has none.
      if (!token.empty()) tokens.emplace_back(token);
    } else if (!skip_special_tokens || !added->second.is_special) {
      tokens.push_back(added->second.text);
    }
  }
  if (tokens.empty()) return "";
  if (decoder_) {
    decoder_->decode(tokens);
    return fmt::format("{}", fmt::join(tokens, ""));
  }
  return fmt::format("{}", fmt::join(tokens, " "));
}

std::unique_ptr<Tokenizer::Scratch> Tokenizer::make_scratch(size_t text_bytes) const {
  auto scratch = std::make_unique<Scratch>();
  scratch->model = model_->make_scratch(text_bytes);
  return scratch;
}

void Tokenizer::check_max_length(bool is_pair, int64_t max_length) const {
  if (max_length < added_token_count(is_pair))
    throw user_error("[max_seq_length] expected at least the {} special tokens, got {}",
                     added_token_count(is_pair), max_length);
}

Encoding Tokenizer::encode(std::string_view text, int64_t max_length) const {
  const TextPair texts[] = {{text, std::nullopt}};
  return std::move(encode_batch(texts, max_length, 1)[0]);
}

Encoding Tokenizer::encode(std::string_view text, std::string_view pair, int64_t max_length) const {
  const TextPair texts[] = {{text, pair}};
  return std::move(encode_batch(texts, max_length, 1)[0]);
}

std::vector<Encoding> Tokenizer::encode_batch(std::span<const TextPair> texts, int64_t max_length,
                                              int threads) const {
  check_max_length(std::ranges::any_of(texts, [](const TextPair& text) { return text.second.has_value(); }),
                   max_length);
  CHECK(threads >= 1, "[threads] expected at least 1, got {}", threads);
  size_t text_bytes = 0;
  for (const TextPair& text : texts) text_bytes += text.first.size() + text.second.value_or("").size();
  std::vector<Encoding> encodings(texts.size());
  if (threads == 1 || texts.size() <= 1) {
    const std::unique_ptr<Scratch> scratch = make_scratch(text_bytes);
    for (size_t i = 0; i < texts.size(); ++i) encodings[i] = encode_text(texts[i], max_length, *scratch);
    return encodings;
  }
  check_room_for_stacks(threads);
  // An exception may not leave a parallel region.
  std::exception_ptr error;
  std::mutex error_mutex;
  const auto count = static_cast<int64_t>(texts.size());
#pragma omp parallel num_threads(threads)
  {
    const std::unique_ptr<Scratch> scratch = make_scratch(text_bytes / static_cast<size_t>(threads));
#pragma omp for schedule(dynamic, kTextsPerTurn)
    for (int64_t i = 0; i < count; ++i) {
      const auto index = static_cast<size_t>(i);
      try {
        encodings[index] = encode_text(texts[index], max_length, *scratch);
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        error = std::current_exception();
      }
    }
  }
  if (error) std::rethrow_exception(error);
  return encodings;
}

}  // namespace shoehorn
