#include "data/shard_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/rounding.h"

namespace shoehorn {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian and read as they are");

// Far beyond any file, and small enough that no size computed from it overflows.
constexpr uint64_t kMaxElements = uint64_t{1} << 40;
constexpr uint32_t kMaxLabelWidth = uint32_t{1} << 16;

// What is read at a time; a multiple of every element, so that none is cut.
constexpr int64_t kPieceBytes = int64_t{1} << 20;
constexpr size_t kElementsAtOnce = 4096;

constexpr int64_t kSectionAlignment = 8;

UserError malformed(const std::filesystem::path& path, const std::string& expected, const std::string& got) {
  return user_error(
      "[{}] expected {}, got {}; remove the directory that it lies in, or give --overwrite_cache to make it anew",
      path.string(), expected, got);
}

ShardHeader read_header(const ReadOnlyFile& file) {
  const auto wrong = [&](const std::string& expected, const std::string& got) {
    return malformed(file.path(), expected, got);
  };
  ShardHeader header{};
  if (file.bytes() < static_cast<int64_t>(sizeof(header)))
    throw wrong(fmt::format("a file of at least {} bytes", sizeof(header)), fmt::format("{}", file.bytes()));
  file.read_at(0, std::as_writable_bytes(std::span(&header, 1)));
  if (header.magic != kShardMagic) throw wrong("a file of tokens", "another kind of file");
  if (header.version != kShardVersion)
    throw wrong(fmt::format("version {}", kShardVersion), fmt::format("version {}", header.version));
  if (header.id_bytes != 2 && header.id_bytes != 4)
    throw wrong("ids of 2 or 4 bytes", fmt::format("{}", header.id_bytes));
  if (header.label_kind > static_cast<uint32_t>(LabelKind::kDecoderToken))
    throw wrong("a known kind of labels", fmt::format("kind {}", header.label_kind));
  const bool has_values = header.label_kind == static_cast<uint32_t>(LabelKind::kValue);
  if (header.label_width < 1 || header.label_width > (has_values ? kMaxLabelWidth : 1))
    throw wrong("a number of values a sample", fmt::format("{}", header.label_width));
  if (header.has_token_types > 1)
    throw wrong("token types or none", fmt::format("{}", header.has_token_types));
  if (header.samples < 1 || header.samples > kMaxElements || header.tokens > kMaxElements ||
      header.decoder_tokens > kMaxElements) {
    throw wrong("numbers of samples and tokens", fmt::format("{} samples of {} and {} tokens", header.samples,
                                                             header.tokens, header.decoder_tokens));
  }
  if (header.label_kind == static_cast<uint32_t>(LabelKind::kDecoderToken) && header.decoder_tokens == 0)
    throw wrong("tokens of a decoder, which are labelled", "none");
  return header;
}

// Sees the elements of one section as the file is read.
template <typename T, typename See>
void see_elements(int64_t section, int64_t count, int64_t piece_offset, std::span<const std::byte> piece,
                  const See& see) {
  const int64_t bytes = static_cast<int64_t>(sizeof(T));
  const int64_t begin = std::max(section, piece_offset);
  const int64_t end = std::min(section + count * bytes, piece_offset + std::ssize(piece));
  for (int64_t at = begin; at < end; at += bytes) {
    T value;
    std::memcpy(&value, piece.data() + (at - piece_offset), sizeof(T));
    see(value, (at - section) / bytes);
  }
}

// The order in which the sections lie does not matter to it: each sees its own part of each piece.
class ContentCheck {
 public:
  ContentCheck(const std::filesystem::path& path, const ShardHeader& header, const ShardLayout& layout)
      : path_(path), header_(header), layout_(layout) {
    facts_.size = static_cast<int64_t>(header.samples);
    facts_.labels = {static_cast<LabelKind>(header.label_kind), header.label_width};
    facts_.has_token_types = header.has_token_types == 1;
    facts_.of(TokenStream::kInput).tokens = static_cast<int64_t>(header.tokens);
    facts_.of(TokenStream::kDecoder).tokens = static_cast<int64_t>(header.decoder_tokens);
  }

  void see(int64_t offset, std::span<const std::byte> piece) {
    for (const TokenStream stream : kTokenStreams) {
      if (facts_.of(stream).tokens == 0 && stream == TokenStream::kDecoder) continue;
      see_offsets(stream, offset, piece);
      if (header_.id_bytes == sizeof(uint16_t)) {
        see_ids<uint16_t>(stream, offset, piece);
      } else {
        see_ids<uint32_t>(stream, offset, piece);
      }
    }
    if (facts_.labels.kind == LabelKind::kNone || facts_.labels.kind == LabelKind::kValue) return;
    see_elements<int32_t>(
        layout_.labels, layout_.label_elements, offset, piece, [&](int32_t label, int64_t at) {
          if (label < 0 && label != kIgnoredLabel)
            throw malformed(path_, "labels of 0 or more, or -100", fmt::format("{} at {}", label, at));
        });
  }

  const SourceFacts& finish() {
    facts_.longest_document = facts_.of(TokenStream::kInput).longest;
    return facts_;
  }

 private:
  void see_offsets(TokenStream stream, int64_t offset, std::span<const std::byte> piece) {
    const auto s = static_cast<size_t>(stream);
    StreamFacts& facts = facts_.of(stream);
    // Only texts that blocks are cut from may have no tokens.
    const uint64_t fewest =
        facts_.labels.kind == LabelKind::kNone && facts_.of(TokenStream::kDecoder).tokens == 0 ? 0 : 1;
    see_elements<uint64_t>(
        layout_.offsets.at(s), facts_.size + 1, offset, piece, [&](uint64_t value, int64_t at) {
          uint64_t& before = last_offset_.at(s);
          const bool is_first = at == 0;
          const bool is_last = at == facts_.size;
          const auto tokens = static_cast<uint64_t>(facts.tokens);
          // The last offset is the end of all.
          const bool is_right = is_first ? value == 0 : value >= before + fewest && value <= tokens;
          if (!is_right || (is_last && value != tokens) ||
              value - before > static_cast<uint64_t>(std::numeric_limits<int32_t>::max())) {
            throw malformed(path_, fmt::format("rising offsets up to {}", tokens),
                            fmt::format("{} behind {} at sample {}", value, before, at));
          }
          const auto length = static_cast<int64_t>(value - before);
          if (!is_first) facts.shortest = at == 1 ? length : std::min(facts.shortest, length);
          facts.longest = std::max(facts.longest, length);
          before = value;
        });
  }

  template <typename T>
  void see_ids(TokenStream stream, int64_t offset, std::span<const std::byte> piece) {
    StreamFacts& facts = facts_.of(stream);
    if (facts.tokens == 0) return;
    T largest = 0;
    see_elements<T>(layout_.ids.at(static_cast<size_t>(stream)), facts.tokens, offset, piece,
                    [&](T id, int64_t) { largest = std::max(largest, id); });
    if (largest > static_cast<uint32_t>(std::numeric_limits<int32_t>::max()))
      throw malformed(path_, "ids below 2^31", fmt::format("{}", largest));
    facts.largest_id = std::max(facts.largest_id, static_cast<int32_t>(largest));
  }

  const std::filesystem::path& path_;
  const ShardHeader& header_;
  const ShardLayout& layout_;
  SourceFacts facts_;
  std::array<uint64_t, kTokenStreams.size()> last_offset_{};
};

}  // namespace

ShardLayout::ShardLayout(const ShardHeader& header) {
  int64_t at = sizeof(ShardHeader);
  const auto place = [&at](int64_t elements, int64_t element_bytes) {
    const int64_t begin = round_up(at, kSectionAlignment);
    if (elements > 0) at = begin + elements * element_bytes;
    return begin;
  };
  const auto samples = static_cast<int64_t>(header.samples);
  const auto tokens = static_cast<int64_t>(header.tokens);
  const auto decoder_tokens = static_cast<int64_t>(header.decoder_tokens);
  offsets = {place(samples + 1, sizeof(uint64_t)),
             place(decoder_tokens == 0 ? 0 : samples + 1, sizeof(uint64_t))};
  ids = {place(tokens, header.id_bytes), place(decoder_tokens, header.id_bytes)};
  token_types = place(header.has_token_types == 1 ? tokens : 0, sizeof(uint8_t));
  switch (static_cast<LabelKind>(header.label_kind)) {
    case LabelKind::kNone:
      break;
    case LabelKind::kClass:
      label_elements = samples;
      break;
    case LabelKind::kValue:
      label_elements = samples * header.label_width;
      break;
    case LabelKind::kToken:
    case LabelKind::kNextToken:
      label_elements = tokens;
      break;
    case LabelKind::kDecoderToken:
      label_elements = decoder_tokens;
      break;
  }
  static_assert(sizeof(int32_t) == sizeof(float));
  labels = place(label_elements, sizeof(int32_t));
  bytes = at;
}

ShardFile::ShardFile(ReadOnlyFile file, const ShardHeader& header)
    : file_(std::move(file)), header_(header), layout_(header) {}

ShardFile ShardFile::open(const std::filesystem::path& path, const std::optional<ListedFile>& listed,
                          const std::function<void(int64_t bytes)>& on_bytes) {
  ReadOnlyFile file = ReadOnlyFile::open(path);
  const ShardHeader header = read_header(file);
  ShardFile shard(std::move(file), header);
  shard.check_content(listed, on_bytes);
  return shard;
}

void ShardFile::check_content(const std::optional<ListedFile>& listed,
                              const std::function<void(int64_t bytes)>& on_bytes) {
  std::optional<ListedFileCheck> check;
  if (listed) check.emplace(path(), file_.bytes(), *listed);
  if (file_.bytes() != layout_.bytes) {
    throw malformed(path(), fmt::format("a file of {}", format_bytes(layout_.bytes)),
                    fmt::format("one of {}", format_bytes(file_.bytes())));
  }
  ContentCheck content(path(), header_, layout_);
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(kPieceBytes, file_.bytes())));
  for (int64_t at = 0; at < file_.bytes(); at += kPieceBytes) {
    const auto piece =
        std::span(buffer).first(static_cast<size_t>(std::min(kPieceBytes, file_.bytes() - at)));
    file_.read_at(at, piece);
    if (check) check->update(piece);
    content.see(at, piece);
    if (on_bytes) on_bytes(at + std::ssize(piece));
  }
  if (check) check->finish();
  facts_ = content.finish();
}

void ShardFile::throw_changed() const {
  throw system_error(
      "[{}] expected the file that was opened, got another content; was it changed while being read?",
      path().string());
}

template <typename T>
void ShardFile::read_elements(int64_t offset, int64_t first, std::span<T> to) const {
  file_.read_at(offset + first * static_cast<int64_t>(sizeof(T)), std::as_writable_bytes(to));
}

ShardFile::Range ShardFile::range(int64_t sample, TokenStream stream) const {
  const StreamFacts& facts = facts_.of(stream);
  if (facts.tokens == 0) return {0, 0};
  std::array<uint64_t, 2> ends{};
  read_elements<uint64_t>(layout_.offsets.at(static_cast<size_t>(stream)), sample, ends);
  const auto [begin, end] = ends;
  if (begin > end || end > static_cast<uint64_t>(facts.tokens) ||
      end - begin < static_cast<uint64_t>(facts.shortest) ||
      end - begin > static_cast<uint64_t>(facts.longest)) {
    throw_changed();
  }
  return {static_cast<int64_t>(begin), static_cast<int64_t>(end - begin)};
}

ShardFile::Range ShardFile::range_of(int64_t sample, TokenStream stream, size_t wanted) const {
  const Range found = range(sample, stream);
  if (found.size != static_cast<int64_t>(wanted)) throw_changed();
  return found;
}

void ShardFile::copy_lengths(int64_t first, TokenStream stream, std::span<int32_t> to) const {
  if (facts_.of(stream).tokens == 0) {
    std::ranges::fill(to, 0);
    return;
  }
  std::array<uint64_t, kElementsAtOnce + 1> offsets{};
  while (!to.empty()) {
    const size_t count = std::min(to.size(), kElementsAtOnce);
    read_elements<uint64_t>(layout_.offsets.at(static_cast<size_t>(stream)), first,
                            std::span(offsets).first(count + 1));
    for (size_t i = 0; i < count; ++i) to[i] = static_cast<int32_t>(offsets.at(i + 1) - offsets.at(i));
    first += static_cast<int64_t>(count);
    to = to.subspan(count);
  }
}

void ShardFile::copy_ids(int64_t sample, TokenStream stream, std::span<int32_t> to) const {
  copy_ids_at(stream, range_of(sample, stream, to.size()).begin, to);
}

void ShardFile::copy_ids_at(TokenStream stream, int64_t first, std::span<int32_t> to) const {
  const int64_t section = layout_.ids.at(static_cast<size_t>(stream));
  const std::span<int32_t> all = to;
  if (header_.id_bytes == sizeof(uint32_t)) {
    read_elements<int32_t>(section, first, to);
  } else {
    std::array<uint16_t, kElementsAtOnce> ids;
    while (!to.empty()) {
      const auto part = std::span(ids).first(std::min(to.size(), kElementsAtOnce));
      read_elements<uint16_t>(section, first, part);
      std::ranges::copy(part, to.begin());
      first += std::ssize(part);
      to = to.subspan(part.size());
    }
  }
  // A program looks up whatever it is given.
  const auto largest = static_cast<uint32_t>(facts_.of(stream).largest_id);
  uint32_t found = 0;
  for (const int32_t id : all) found = std::max(found, static_cast<uint32_t>(id));
  if (found > largest) throw_changed();
}

void ShardFile::copy_token_types(int64_t sample, std::span<int32_t> to) const {
  if (!facts_.has_token_types) {
    std::ranges::fill(to, 0);
    return;
  }
  int64_t first = range_of(sample, TokenStream::kInput, to.size()).begin;
  std::array<uint8_t, kElementsAtOnce> types;
  while (!to.empty()) {
    const auto part = std::span(types).first(std::min(to.size(), kElementsAtOnce));
    read_elements<uint8_t>(layout_.token_types, first, part);
    std::ranges::copy(part, to.begin());
    first += std::ssize(part);
    to = to.subspan(part.size());
  }
}

int32_t ShardFile::class_label(int64_t sample) const {
  int32_t label = 0;
  read_elements<int32_t>(layout_.labels, sample, std::span(&label, 1));
  return label;
}

void ShardFile::copy_value_labels(int64_t sample, std::span<float> to) const {
  read_elements<float>(layout_.labels, sample * facts_.labels.width, to);
}

void ShardFile::copy_token_labels(int64_t sample, std::span<int32_t> to) const {
  const Range tokens = range_of(sample, labelled_stream(facts_.labels.kind), to.size());
  read_elements<int32_t>(layout_.labels, tokens.begin, to);
}

int32_t ShardFile::token_label(int64_t sample, int64_t token) const {
  int32_t label = 0;
  const Range tokens = range(sample, labelled_stream(facts_.labels.kind));
  read_elements<int32_t>(layout_.labels, tokens.begin + token, std::span(&label, 1));
  return label;
}

int64_t ShardFile::first_token(int64_t sample) const {
  uint64_t offset = 0;
  read_elements<uint64_t>(layout_.offsets.at(0), sample, std::span(&offset, 1));
  if (offset > static_cast<uint64_t>(facts_.of(TokenStream::kInput).tokens)) throw_changed();
  return static_cast<int64_t>(offset);
}

void ShardFile::copy_token_labels_from(int64_t first_token, std::span<int32_t> to) const {
  read_elements<int32_t>(layout_.labels, first_token, to);
}

int64_t ShardFile::labelled_tokens(int64_t sample) const {
  const Range tokens = range(sample, labelled_stream(facts_.labels.kind));
  std::array<int32_t, kElementsAtOnce> labels;
  int64_t count = 0;
  for (int64_t done = 0; done < tokens.size;) {
    const auto part =
        std::span(labels).first(std::min(static_cast<size_t>(tokens.size - done), kElementsAtOnce));
    read_elements<int32_t>(layout_.labels, tokens.begin + done, part);
    count += std::ranges::count_if(part, [](int32_t label) { return label != kIgnoredLabel; });
    done += std::ssize(part);
  }
  return count;
}

}  // namespace shoehorn
