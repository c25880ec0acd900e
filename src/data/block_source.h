// Blocks of tokens, which are cut from texts: the samples of a language model.
//
// The texts are the samples of a source whose tokens lie end to end (MemorySource, ShardSource); one may have no
// tokens. Blocks are views: no token is copied, and a block is one read. Two ways of packing:
//
//   kConcatenate  all texts end to end, cut every block_size tokens, as in run_clm: a block is one document, whatever
//                 texts it has parts of.
//
//                   texts    |aaaaa|bb|cccccccc|d|          block_size 6
//                   blocks   |aaaaab|bccccc|cccd|
//
//   kDocuments    each text is a document, which attends to nothing of the others and whose positions begin at 0. Texts
//                 are taken in their order: a block ends before a text that it has no room for. A text longer than a
//                 block is cut into pieces of block_size tokens, each a document and the first of its block.
//
//                   blocks   |aaaaa|bb|cccccc|cc d|
//
// What is left at the end of a concatenation, fewer tokens than a block:
//   kKeep    a shorter block.
//   kDrop    none of it is used.
//   kRunClm  run_clm's way: each 1,000 texts are concatenated on their own, and what is left of each is not used.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"
#include "data/sample_source.h"

namespace shoehorn {

enum class BlockPacking : uint8_t { kConcatenate, kDocuments };
enum class BlockRemainder : uint8_t { kKeep, kDrop, kRunClm };

// "concatenate", "documents"; "keep", "drop", "run_clm".
std::string_view block_packing_name(BlockPacking packing);
std::optional<BlockPacking> find_block_packing(std::string_view name);
std::string_view block_remainder_name(BlockRemainder remainder);
std::optional<BlockRemainder> find_block_remainder(std::string_view name);

// run_clm's groups: what `datasets` maps at once.
inline constexpr int64_t kRunClmTexts = 1000;

struct BlockOptions {
  int64_t block_size = 1024;  // tokens
  BlockPacking packing = BlockPacking::kConcatenate;
  BlockRemainder remainder = BlockRemainder::kKeep;  // of kConcatenate
  // The texts that blocks are cut from: a range of the source's samples.
  int64_t first_text = 0;
  std::optional<int64_t> texts = {};  // unset: all from first_text on
  int64_t max_blocks = 0;             // above 0: only so many, from the first on
};

// What became of the texts. Tokens of blocks + left-over tokens + tokens behind max_blocks are all tokens.
struct BlockCounts {
  int64_t texts = 0;
  int64_t empty_texts = 0;  // without tokens
  int64_t tokens = 0;       // of all texts
  int64_t blocks = 0;
  int64_t block_tokens = 0;         // of all blocks
  int64_t short_blocks = 0;         // blocks with fewer than block_size tokens
  int64_t left_over_tokens = 0;     // that kDrop and kRunClm do not use
  int64_t unused_blocks = 0;        // behind max_blocks
  int64_t unused_block_tokens = 0;  // of these
  int64_t cut_texts = 0;            // kDocuments: texts longer than a block

  BlockCounts& operator+=(const BlockCounts& other);
};

class BlockSource final : public SampleSource {
 public:
  // UserError: a block_size below 2. CHECKs that the texts have the range, and no labels or labels of tokens, no token
  // types, no documents of their own, and no tokens of a decoder. No block is no error: counts() tells.
  BlockSource(std::shared_ptr<const ContiguousSource> texts, const BlockOptions& options);

  const BlockCounts& counts() const { return counts_; }

  int64_t length(int64_t sample, TokenStream stream) const override;
  void copy_lengths(int64_t first, TokenStream stream, std::span<int32_t> to) const override;
  void copy_ids(int64_t sample, TokenStream stream, std::span<int32_t> to) const override;
  void copy_token_types(int64_t sample, std::span<int32_t> to) const override;
  int64_t document_count(int64_t sample) const override;
  int64_t document_length(int64_t sample, int64_t document) const override;
  int32_t class_label(int64_t sample) const override;
  void copy_value_labels(int64_t sample, std::span<float> to) const override;
  void copy_token_labels(int64_t sample, std::span<int32_t> to) const override;
  int32_t token_label(int64_t sample, int64_t token) const override;
  int64_t labelled_tokens(int64_t sample) const override;
  // Of the texts too. A concatenation takes a few bytes (kRunClm: 24 for each 1,000 texts), kDocuments 40 a block.
  int64_t memory_bytes() const override;

 private:
  // Of the texts' hash and of where blocks begin, so that what lies in files is not read for it.
  std::string hash_content(const ByteProgress& on_progress) const override;

  // Tokens that are cut every block_size.
  struct Run {
    int64_t first_block;
    int64_t begin;
    int64_t end;
  };
  // The texts that a block of kDocuments has tokens of: places among those that have tokens.
  struct Documents {
    int64_t first;
    int64_t count;
  };
  struct Stretch {
    int64_t begin;
    int64_t size;
  };

  void concatenate(int64_t first_text, int64_t last_text);
  void pack_documents(int64_t first_text, int64_t last_text);
  void add_run(int64_t begin, int64_t end);
  void keep_first_blocks(int64_t blocks);
  void set_facts();
  int64_t blocks_of(const Run& run) const;
  Stretch stretch(int64_t sample) const;
  int64_t text_of(int64_t document) const;

  std::shared_ptr<const ContiguousSource> texts_;
  BlockOptions options_;
  BlockCounts counts_;
  int64_t blocks_ = 0;
  std::vector<Run> runs_;
  std::vector<Documents> documents_;  // of each block; nothing of kConcatenate
  std::vector<int64_t> not_empty_;    // texts with tokens; nothing where all have some
};

// Cuts the samples of a data set into blocks. UserError: that of BlockSource; samples of another source, with labels of
// samples, or with columns besides ids and labels. `counts` may be null.
Dataset cut_blocks(const Dataset& texts, const BlockOptions& options, BlockCounts* counts = nullptr);

}  // namespace shoehorn
