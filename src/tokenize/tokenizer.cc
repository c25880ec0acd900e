#include "tokenize/tokenizer.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <set>

#include "base/error.h"
#include "tokenize/unicode.h"

namespace shoehorn {
namespace {

// Texts that a thread takes at a time: many enough to hide the cost of taking, few enough to share a long
// tail.
constexpr int kTextsPerTurn = 16;

// longest_first: a sequence that fits its half is kept whole, else the halves are equal and the longer
// sequence has the odd token.
std::pair<int64_t, int64_t> truncated_lengths(int64_t first, int64_t second, int64_t room) {
  if (room >= first && room - first >= second) return {first, second};
  const int64_t shorter = std::min(first, second);
  const int64_t kept = std::min(shorter, room / 2);
  return first <= second ? std::pair(kept, room - kept) : std::pair(room - kept, kept);
}

}  // namespace

// Buffers of one thread, which grow to the longest text and stay.
struct Tokenizer::Scratch {
  std::vector<int32_t> first;
  std::vector<int32_t> second;
  std::string normalized;
  std::vector<AddedTokenMatcher::Stretch> raw_stretches;
  std::vector<AddedTokenMatcher::Stretch> normalized_stretches;
  Normalizer::Scratch marks;
  WordPiece::Scratch hashes;
};

std::unique_ptr<Tokenizer> Tokenizer::load(const std::filesystem::path& model_dir) {
  return std::make_unique<Tokenizer>(read_tokenizer_file(model_dir));
}

Tokenizer::Tokenizer(TokenizerFile file)
    : normalizer_(file.normalizer), word_piece_(std::move(file.tokens), file.model, file.path.string()) {
  resolve_added_tokens(file);
  raw_tokens_ = std::make_unique<AddedTokenMatcher>(searched_tokens(file.added_tokens, false));
  normalized_tokens_ = std::make_unique<AddedTokenMatcher>(searched_tokens(file.added_tokens, true));
  single_ = std::move(file.single);
  pair_ = std::move(file.pair);
  check_template(single_, file.path.string());
  check_template(pair_, file.path.string());
  model_max_length_ = file.model_max_length;
  pad_id_ = id_of(file.pad_token);
  cls_id_ = id_of(file.cls_token);
  sep_id_ = id_of(file.sep_token);
  mask_id_ = id_of(file.mask_token);
}

// As `tokenizers` does: a token that the vocabulary has keeps its id, another is appended; the id in the file
// must say the same. Of two entries with one content the later counts.
void Tokenizer::resolve_added_tokens(TokenizerFile& file) {
  std::vector<AddedToken> tokens;
  std::map<int32_t, size_t> places;  // in tokens, by id
  Normalizer::Scratch marks;
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
    if (token.normalized) {
      std::string normalized;
      normalizer_.append_normalized(token.content, marks, normalized);
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
  const int32_t id = word_piece_.id_of(token);
  if (id >= 0) return id;
  const auto appended = appended_ids_.find(token);
  return appended == appended_ids_.end() ? -1 : appended->second;
}

std::string_view Tokenizer::token_of(int64_t id) const {
  if (id < 0 || id >= vocab_size())
    throw user_error("[token id] expected 0..{}, got {}; is this the tokenizer of the model?",
                     vocab_size() - 1, id);
  return id < word_piece_.size() ? word_piece_.token_of(id) : appended_[id - word_piece_.size()];
}

int64_t Tokenizer::added_token_count(bool is_pair) const {
  int64_t count = 0;
  for (const TemplatePiece& piece : is_pair ? pair_ : single_)
    count += static_cast<int64_t>(piece.ids.size());
  return count;
}

void Tokenizer::append_words(std::string_view normalized, Scratch& scratch, std::vector<int32_t>& ids) const {
  size_t position = 0;
  for (std::string_view word = next_word(normalized, position); !word.empty();
       word = next_word(normalized, position))
    word_piece_.append_pieces(word, scratch.hashes, ids);
}

void Tokenizer::append_normalized(std::string_view text, Scratch& scratch, std::vector<int32_t>& ids) const {
  scratch.normalized.clear();
  normalizer_.append_normalized(text, scratch.marks, scratch.normalized);
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

void Tokenizer::append_text(std::string_view text, Scratch& scratch, std::vector<int32_t>& ids) const {
  std::string replaced;
  if (!is_valid_utf8(text)) text = replaced = replace_invalid_utf8(text);
  raw_tokens_->split(text, scratch.raw_stretches);
  for (const auto& [begin, end, id] : scratch.raw_stretches) {
    if (id >= 0)
      ids.push_back(id);
    else
      append_normalized(text.substr(begin, end - begin), scratch, ids);
  }
}

Encoding Tokenizer::encode_text(const TextPair& text, int64_t max_length, Scratch& scratch) const {
  const std::vector<TemplatePiece>& pieces = text.second ? pair_ : single_;
  scratch.first.clear();
  scratch.second.clear();
  append_text(text.first, scratch, scratch.first);
  if (text.second) append_text(*text.second, scratch, scratch.second);
  const int64_t room =
      max_length == kNoTruncation ? kNoTruncation : max_length - added_token_count(text.second.has_value());
  const auto [first_length, second_length] = truncated_lengths(
      static_cast<int64_t>(scratch.first.size()), static_cast<int64_t>(scratch.second.size()), room);
  scratch.first.resize(static_cast<size_t>(first_length));
  scratch.second.resize(static_cast<size_t>(second_length));

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
  const bool pairs = std::ranges::any_of(texts, [](const TextPair& text) { return text.second.has_value(); });
  if (max_length < added_token_count(pairs))
    throw user_error("[max_length] expected at least the {} special tokens, got {}", added_token_count(pairs),
                     max_length);
  CHECK(threads >= 1, "[threads] expected at least 1, got {}", threads);
  std::vector<Encoding> encodings(texts.size());
  if (threads == 1 || texts.size() <= 1) {
    Scratch scratch;
    for (size_t i = 0; i < texts.size(); ++i) encodings[i] = encode_text(texts[i], max_length, scratch);
    return encodings;
  }
  // An exception may not leave a parallel region.
  std::exception_ptr error;
  std::mutex error_mutex;
  const auto count = static_cast<int64_t>(texts.size());
#pragma omp parallel num_threads(threads)
  {
    Scratch scratch;
#pragma omp for schedule(dynamic, kTextsPerTurn)
    for (int64_t i = 0; i < count; ++i) {
      const auto index = static_cast<size_t>(i);
      try {
        encodings[index] = encode_text(texts[index], max_length, scratch);
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
