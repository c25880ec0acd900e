#include "data/block_source.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/content_hash.h"
#include "base/error.h"
#include "base/rounding.h"

namespace shoehorn {
namespace {

constexpr std::array<std::string_view, 2> kPackingNames = {"concatenate", "documents"};
constexpr std::array<std::string_view, 3> kRemainderNames = {"keep", "drop", "run_clm"};

template <typename Enum, size_t N>
std::optional<Enum> find_name(const std::array<std::string_view, N>& names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

// Visits the texts [first, last) and their lengths.
template <typename Visit>
void for_each_text(const SampleSource& texts, int64_t first, int64_t last, const Visit& visit) {
  constexpr int64_t kLengthsAtOnce = 4096;
  std::vector<int32_t> lengths;
  for (; first < last; first += std::ssize(lengths)) {
    lengths.resize(static_cast<size_t>(std::min(kLengthsAtOnce, last - first)));
    texts.copy_lengths(first, TokenStream::kInput, lengths);
    for (size_t i = 0; i < lengths.size(); ++i) visit(first + static_cast<int64_t>(i), lengths[i]);
  }
}

template <typename T>
void add_to_hash(ContentHash& hash, const std::vector<T>& values) {
  hash.add(std::as_bytes(std::span(values)));
}

}  // namespace

std::string_view block_packing_name(BlockPacking packing) {
  return kPackingNames.at(static_cast<size_t>(packing));
}

std::optional<BlockPacking> find_block_packing(std::string_view name) {
  return find_name<BlockPacking>(kPackingNames, name);
}

std::string_view block_remainder_name(BlockRemainder remainder) {
  return kRemainderNames.at(static_cast<size_t>(remainder));
}

std::optional<BlockRemainder> find_block_remainder(std::string_view name) {
  return find_name<BlockRemainder>(kRemainderNames, name);
}

BlockCounts& BlockCounts::operator+=(const BlockCounts& other) {
  for (int64_t BlockCounts::* const count :
       {&BlockCounts::texts, &BlockCounts::empty_texts, &BlockCounts::tokens, &BlockCounts::blocks,
        &BlockCounts::block_tokens, &BlockCounts::short_blocks, &BlockCounts::left_over_tokens,
        &BlockCounts::unused_blocks, &BlockCounts::unused_block_tokens, &BlockCounts::cut_texts})
    this->*count += other.*count;
  return *this;
}

BlockSource::BlockSource(std::shared_ptr<const ContiguousSource> texts, const BlockOptions& options)
    : texts_(std::move(texts)), options_(options) {
  if (options.block_size < 2) {
    throw user_error("[block_size] expected 2 or more tokens, of which the first predicts the second, got {}",
                     options.block_size);
  }
  const SourceFacts& facts = texts_->facts();
  CHECK((facts.labels.kind == LabelKind::kNone || facts.labels.kind == LabelKind::kToken) &&
            !facts.has_token_types && facts.most_documents == 1 && texts_->distinct_size() == facts.size &&
            facts.of(TokenStream::kDecoder).tokens == 0,
        "texts that are more than a row of tokens each");
  const int64_t first = options.first_text;
  const int64_t last = options.texts ? first + *options.texts : facts.size;
  CHECK(first >= 0 && first <= last && last <= facts.size, "texts [{}, {}) of {}", first, last, facts.size);
  facts_.labels = facts.labels;
  facts_.of(TokenStream::kInput).largest_id = facts.of(TokenStream::kInput).largest_id;
  counts_.texts = last - first;
  counts_.tokens = texts_->first_token(last) - texts_->first_token(first);
  if (options.packing == BlockPacking::kConcatenate) {
    concatenate(first, last);
  } else {
    pack_documents(first, last);
  }
  runs_.shrink_to_fit();
  documents_.shrink_to_fit();
  not_empty_.shrink_to_fit();
  facts_.size = counts_.blocks;
  facts_.of(TokenStream::kInput).tokens = counts_.block_tokens;
}

void BlockSource::concatenate(int64_t first_text, int64_t last_text) {
  if (texts_->facts().of(TokenStream::kInput).shortest == 0) {
    for_each_text(*texts_, first_text, last_text,
                  [&](int64_t, int32_t tokens) { counts_.empty_texts += tokens == 0 ? 1 : 0; });
  }
  const bool is_in_groups = options_.remainder == BlockRemainder::kRunClm;
  const int64_t group = is_in_groups ? kRunClmTexts : std::max<int64_t>(1, last_text - first_text);
  for (int64_t text = first_text; text < last_text; text += group) {
    const int64_t begin = texts_->first_token(text);
    const int64_t end = texts_->first_token(std::min(text + group, last_text));
    const int64_t remainder = (end - begin) % options_.block_size;
    // One token has no other to predict.
    const bool is_kept = options_.remainder == BlockRemainder::kKeep && remainder > 1;
    if (!is_kept) counts_.left_over_tokens += remainder;
    add_run(begin, is_kept ? end : end - remainder);
  }
  facts_.longest_document = facts_.of(TokenStream::kInput).longest;
}

// Blocks behind max_blocks are only counted.
void BlockSource::add_run(int64_t begin, int64_t end) {
  const int64_t size = options_.block_size;
  const int64_t tokens = end - begin;
  const int64_t blocks = ceil_divide(tokens, size);
  const int64_t used =
      options_.max_blocks == 0 ? blocks : std::min(blocks, options_.max_blocks - counts_.blocks);
  const int64_t used_tokens = std::min(tokens, used * size);
  counts_.unused_blocks += blocks - used;
  counts_.unused_block_tokens += tokens - used_tokens;
  if (used == 0) return;
  runs_.push_back({.first_block = counts_.blocks, .begin = begin, .end = begin + used_tokens});
  StreamFacts& facts = facts_.of(TokenStream::kInput);
  const int64_t last = used_tokens - (used - 1) * size;
  facts.shortest = counts_.blocks == 0 ? last : std::min(facts.shortest, last);
  facts.longest = std::max(facts.longest, std::min(size, used_tokens));
  counts_.short_blocks += last < size ? 1 : 0;
  counts_.blocks += used;
  counts_.block_tokens += used_tokens;
}

void BlockSource::pack_documents(int64_t first_text, int64_t last_text) {
  const int64_t size = options_.block_size;
  const bool some_are_empty = texts_->facts().of(TokenStream::kInput).shortest == 0;
  int64_t place = texts_->first_token(first_text);
  int64_t document = some_are_empty ? 0 : first_text;
  // The block that is being filled.
  int64_t begin = place;
  Documents documents{};
  int64_t longest = 0;
  const auto close_before = [&](int64_t end) {
    if (end > begin) {
      const int64_t blocks = counts_.blocks;
      add_run(begin, end);
      if (counts_.blocks > blocks) {
        documents_.push_back(documents);
        facts_.most_documents = std::max(facts_.most_documents, documents.count);
        facts_.longest_document = std::max(facts_.longest_document, longest);
      }
    }
    begin = end;
    documents = {.first = document, .count = 0};
    longest = 0;
  };
  const auto take = [&](int64_t tokens) {
    ++documents.count;
    longest = std::max(longest, tokens);
    place += tokens;
  };
  close_before(place);
  for_each_text(*texts_, first_text, last_text, [&](int64_t text, int32_t tokens) {
    if (tokens == 0) {
      ++counts_.empty_texts;
      return;
    }
    if (some_are_empty) not_empty_.push_back(text);
    if (place + tokens > begin + size) close_before(place);
    counts_.cut_texts += tokens > size ? 1 : 0;
    int64_t rest = tokens;
    for (; rest > size; rest -= size) {
      take(size);
      close_before(place);
    }
    take(rest);
    ++document;
  });
  close_before(place);
}

BlockSource::Stretch BlockSource::stretch(int64_t sample) const {
  const auto behind = std::ranges::upper_bound(runs_, sample, {}, &Run::first_block);
  const Run& run = *std::prev(behind);
  const int64_t begin = run.begin + (sample - run.first_block) * options_.block_size;
  return {begin, std::min(options_.block_size, run.end - begin)};
}

int64_t BlockSource::length(int64_t sample, TokenStream stream) const {
  return stream == TokenStream::kInput ? stretch(sample).size : 0;
}

void BlockSource::copy_lengths(int64_t first, TokenStream stream, std::span<int32_t> to) const {
  for (int32_t& tokens : to) tokens = static_cast<int32_t>(length(first++, stream));
}

void BlockSource::copy_ids(int64_t sample, TokenStream stream, std::span<int32_t> to) const {
  if (stream == TokenStream::kInput) texts_->copy_ids_from(stretch(sample).begin, to);
}

void BlockSource::copy_token_types(int64_t /*sample*/, std::span<int32_t> to) const {
  std::ranges::fill(to, 0);
}

int64_t BlockSource::document_count(int64_t sample) const {
  return documents_.empty() ? 1 : documents_[static_cast<size_t>(sample)].count;
}

int64_t BlockSource::document_length(int64_t sample, int64_t document) const {
  const auto [begin, size] = stretch(sample);
  if (documents_.empty()) return size;
  const int64_t text = text_of(documents_[static_cast<size_t>(sample)].first + document);
  return std::min(texts_->first_token(text + 1), begin + size) - std::max(texts_->first_token(text), begin);
}

int64_t BlockSource::text_of(int64_t document) const {
  return not_empty_.empty() ? document : not_empty_[static_cast<size_t>(document)];
}

int32_t BlockSource::class_label(int64_t sample) const {
  CHECK(false, "the class of block {}", sample);
}

void BlockSource::copy_value_labels(int64_t sample, std::span<float> /*to*/) const {
  CHECK(false, "values of block {}", sample);
}

void BlockSource::copy_token_labels(int64_t sample, std::span<int32_t> to) const {
  texts_->copy_token_labels_from(stretch(sample).begin, to);
}

int32_t BlockSource::token_label(int64_t sample, int64_t token) const {
  int32_t label = 0;
  texts_->copy_token_labels_from(stretch(sample).begin + token, std::span(&label, 1));
  return label;
}

int64_t BlockSource::labelled_tokens(int64_t sample) const {
  std::array<int32_t, 1024> labels;
  auto [begin, size] = stretch(sample);
  int64_t count = 0;
  while (size > 0) {
    const auto part = std::span(labels).first(std::min(static_cast<size_t>(size), labels.size()));
    texts_->copy_token_labels_from(begin, part);
    count += std::ssize(part) - std::ranges::count(part, kIgnoredLabel);
    begin += std::ssize(part);
    size -= std::ssize(part);
  }
  return count;
}

std::string BlockSource::hash_content(const ByteProgress& on_progress) const {
  const std::string of_texts =
      fmt::format("blocks of {} tokens from {} ", options_.block_size, texts_->content_hash(on_progress));
  ContentHash hash;
  hash.add(std::as_bytes(std::span(of_texts)));
  add_to_hash(hash, runs_);
  add_to_hash(hash, documents_);
  return hash.hex();
}

int64_t BlockSource::memory_bytes() const {
  return texts_->memory_bytes() +
         static_cast<int64_t>(runs_.capacity() * sizeof(Run) + documents_.capacity() * sizeof(Documents) +
                              not_empty_.capacity() * sizeof(int64_t));
}

Dataset cut_blocks(const Dataset& texts, const BlockOptions& options, BlockCounts* counts) {
  const auto source = std::dynamic_pointer_cast<const ContiguousSource>(texts.shared_source());
  if (source == nullptr) {
    throw user_error(
        "[cut_blocks] expected samples in memory or in files, got blocks or samples with next tokens; cut first, and "
        "give the blocks their labels then");
  }
  const SourceFacts& facts = texts.facts();
  if (facts.labels.kind != LabelKind::kNone && facts.labels.kind != LabelKind::kToken)
    throw user_error("[labels] expected none, or one for each token, to cut blocks, got labels of samples");
  const auto refuse = [](std::string_view column, bool is_there) {
    if (is_there) throw user_error("[{}] expected no such column to cut blocks, got one", column);
  };
  refuse("token_type_ids", facts.has_token_types);
  refuse("position_ids", facts.most_documents > 1);
  refuse("decoder_input_ids", texts.has_decoder_tokens());
  const auto blocks = std::make_shared<const BlockSource>(source, options);
  if (counts != nullptr) *counts = blocks->counts();
  return Dataset(blocks);
}

}  // namespace shoehorn
