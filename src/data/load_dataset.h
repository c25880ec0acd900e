// From files of texts to a Dataset: read_table, find_text_columns, a tokenizer, labels. In memory, or to
// files on a disk without ever holding the texts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"
#include "data/labels.h"
#include "data/table.h"
#include "data/text_columns.h"

namespace shoehorn {

// A text, or a pair of texts. A missing text (a null cell) is empty. The views are valid during the call
// only.
struct TextExample {
  std::string_view text;
  std::string_view pair;
  bool has_pair = false;
};

struct TokenizedExample {
  std::vector<int32_t> input_ids;       // with special tokens, truncated to the maximum length
  std::vector<int32_t> token_type_ids;  // one per id, or empty (all 0)
};

// Tokenizes a batch of examples, in order. It is called from one thread and may use threads of its own.
using TokenizeFunction = std::function<std::vector<TokenizedExample>(std::span<const TextExample>)>;

struct LoadOptions {
  ColumnOptions columns = {};
  TableOptions table = {};
  int64_t max_samples = 0;  // above 0: only that many rows from the start (--max_train_samples)
  // False for a file to be predicted: a label column is then ignored and need not exist.
  bool read_labels = true;
  // The labels of the training data, for validation data; null finds the labels in this file. Not owned.
  const LabelMap* labels = nullptr;
  // How to find the labels in this file.
  FindLabelsOptions find = {};
  // What the process may hold while a data set is read into memory (data/memory_watch.h); unset: what the system leaves.
  std::optional<int64_t> memory_budget_bytes = {};
  // Told of the rows that are read before any is tokenized, how many there are being unknown; may be unset.
  std::function<void(int64_t rows)> on_rows_read = {};
  // Told of the rows that are tokenized, out of all; may be unset. What these two throw ends the reading.
  std::function<void(int64_t done, int64_t rows)> on_progress = {};
};

struct LoadedDataset {
  Dataset dataset;
  LabelMap labels;                              // without names if no labels were read
  std::vector<std::string> text_columns = {};   // one or two
  std::vector<std::string> label_columns = {};  // those that were read
  std::vector<std::string> notices = {};        // lines for people: labels that may be slips
  int64_t invalid_utf8 = 0;                     // ill-formed stretches of bytes in the files
  int64_t empty_texts = 0;                      // cells without text, which become empty texts
  bool labels_are_ids = false;  // the file's labels are numbers of the classes, which have other names
  std::filesystem::path files =
      {};  // where the samples are read from (data/dataset_cache.h); empty: in memory
};

// The tokenizer gets a few hundred texts at a time; they live only during the call. Errors: UserError and
// SystemError of read_table and find_text_columns; UserError for a missing label column, a list instead of a
// text, the errors of find_labels, class_labels and value_labels, and for a tokenizer that returns no tokens; those of
// MemoryWatch, since texts are held until all are tokenized.
LoadedDataset load_dataset(const DataFiles& files, const TokenizeFunction& tokenize,
                           const LoadOptions& options = {});

// The same as load_dataset to files of tokens (data/shard_file.h) in a directory, whose names `shards` gets in order:
// what is returned is all but the data set. Files are read twice, some hundred rows at a time; of all rows
// only the labels are held. SystemError also where they become other ones meanwhile.
LoadedDataset stream_dataset(const DataFiles& files, const TokenizeFunction& tokenize,
                             const LoadOptions& options, const std::filesystem::path& directory,
                             std::vector<std::string>& shards);

}  // namespace shoehorn
