// A file of tokenized samples: one shard of a data set on a disk.
//
// Little-endian. The header, then sections one after the other, each at a multiple of 8 bytes:
//
//   header           ShardHeader
//   offsets          uint64 [samples + 1]      where the tokens of each sample begin, and their end
//   decoder_offsets  uint64 [samples + 1]      the same of the decoder's tokens, if there are any
//   ids              uint16 or uint32 [tokens]
//   decoder_ids      uint16 or uint32 [decoder_tokens]
//   token_types      uint8 [tokens]            nothing where all are 0
//   labels           int32 [samples], float32 [samples · label_width], int32 [tokens] or [decoder_tokens], or nothing
//
// It is read by pread, not mapped: what is read counts as nobody's memory but the page cache's, which the
// kernel takes back when it wants it; a limit of addresses (ulimit -v) does not count it; and a file that is
// cut short while it is in use is an error and no SIGBUS.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>

#include "data/sample_source.h"
#include "io/file.h"
#include "io/manifest.h"

namespace shoehorn {

struct ShardHeader {
  std::array<char, 8> magic;  // kShardMagic
  uint32_t version;           // kShardVersion
  uint32_t id_bytes;          // of an id: 2 or 4
  uint32_t label_kind;        // LabelKind
  uint32_t label_width;       // LabelShape::width
  uint64_t samples;           // at least 1
  uint64_t tokens;
  uint64_t decoder_tokens;   // 0: none
  uint64_t has_token_types;  // 0 or 1
};
static_assert(sizeof(ShardHeader) == 56);

inline constexpr std::array<char, 8> kShardMagic = {'s', 'h', 'o', 'e', 'h', 'o', 'r', 'n'};
inline constexpr uint32_t kShardVersion = 1;

// Where the sections of a file lie, in bytes from its beginning.
struct ShardLayout {
  explicit ShardLayout(const ShardHeader& header);

  std::array<int64_t, kTokenStreams.size()> offsets{};
  std::array<int64_t, kTokenStreams.size()> ids{};
  int64_t token_types = 0;
  int64_t labels = 0;
  int64_t label_elements = 0;
  int64_t bytes = 0;  // of the file
};

// The samples of one file, which is open. Any number of threads may read.
class ShardFile {
 public:
  // Reads the whole file once, and checks that it is what `listed` says and that no offset, id or label is out of its
  // range: what is read later cannot be. UserError, DamagedFile among them, which name file and defect. `on_bytes`: as of
  // content_of_file (io/file_content.h).
  static ShardFile open(const std::filesystem::path& path, const std::optional<ListedFile>& listed,
                        const std::function<void(int64_t bytes)>& on_bytes = {});

  const SourceFacts& facts() const { return facts_; }
  const std::filesystem::path& path() const { return file_.path(); }

  // As of SampleSource. SystemError where the file cannot be read, or is no longer the one that was opened.
  int64_t length(int64_t sample, TokenStream stream) const { return range(sample, stream).size; }
  void copy_lengths(int64_t first, TokenStream stream, std::span<int32_t> to) const;
  void copy_ids(int64_t sample, TokenStream stream, std::span<int32_t> to) const;
  void copy_token_types(int64_t sample, std::span<int32_t> to) const;
  int32_t class_label(int64_t sample) const;
  void copy_value_labels(int64_t sample, std::span<float> to) const;
  void copy_token_labels(int64_t sample, std::span<int32_t> to) const;
  int32_t token_label(int64_t sample, int64_t token) const;
  int64_t labelled_tokens(int64_t sample) const;
  // As of ContiguousSource, of this file alone.
  int64_t first_token(int64_t sample) const;
  void copy_ids_from(int64_t first_token, std::span<int32_t> to) const {
    copy_ids_at(TokenStream::kInput, first_token, to);
  }
  void copy_token_labels_from(int64_t first_token, std::span<int32_t> to) const;

 private:
  struct Range {
    int64_t begin;
    int64_t size;
  };

  ShardFile(ReadOnlyFile file, const ShardHeader& header);
  void check_content(const std::optional<ListedFile>& listed,
                     const std::function<void(int64_t bytes)>& on_bytes);
  Range range(int64_t sample, TokenStream stream) const;
  Range range_of(int64_t sample, TokenStream stream, size_t wanted) const;
  void copy_ids_at(TokenStream stream, int64_t first, std::span<int32_t> to) const;
  template <typename T>
  void read_elements(int64_t offset, int64_t first, std::span<T> to) const;
  [[noreturn]] void throw_changed() const;

  ReadOnlyFile file_;
  ShardHeader header_;
  ShardLayout layout_;
  SourceFacts facts_;
};

}  // namespace shoehorn
