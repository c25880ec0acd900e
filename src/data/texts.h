// The texts of a language model: every row of a file is one, and becomes a sample without labels, from which
// data/block_source.h cuts blocks.
//
//   .txt -                    a text a line. Lines end with LF, CRLF or CR, which are read as LF, as Python reads them;
//                             a line keeps its end (run_clm's --keep_linebreaks) unless it is to go.
//   .csv .tsv .json .jsonl    data/table.h; the column that is named, else `text`, else the first, as in run_clm. JSON's other
//                             keys may be missing in rows, and have values of any shape.
//
// Each may be compressed (.txt.gz, .jsonl.zst); - is standard input. Several files are read one behind the other, and are
// all lines or all tables.
//
// Tokens are those of the whole text, with the special tokens that the tokenizer adds. A text without tokens (an empty
// line) is a sample without tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/data_files.h"
#include "data/dataset.h"
#include "data/load_dataset.h"
#include "data/table.h"

namespace shoehorn {

struct TextOptions {
  std::string text_column = {};            // empty: by the rule above
  std::string preferred_text_column = {};  // before that rule, where the files have a column of this name
  bool keep_linebreaks = true;
  // Appended to each text, unless it ends with that token already.
  std::optional<int32_t> end_token = {};
  TableOptions table = {};
  // What the process may hold while tokens are read into memory (data/memory_watch.h); unset: what the system leaves.
  std::optional<int64_t> memory_budget_bytes = {};
  // Told of the texts that are tokenized; may be unset.
  std::function<void(int64_t texts)> on_progress = {};
};

struct LoadedTexts {
  Dataset texts;                 // one sample a row, without labels
  std::string text_column = {};  // where they come from; empty: lines
  int64_t invalid_utf8 = 0;      // ill-formed stretches of bytes in the files
  int64_t empty_texts = 0;       // without a token
  std::filesystem::path files =
      {};  // where the samples are read from (data/dataset_cache.h); empty: in memory
};

struct TextRows {
  int64_t invalid_utf8 = 0;
  std::string text_column = {};
};

// Calls `take` with the texts of the files, in order, at most `rows` and some MiB at a time; the views are valid during the call.
// UserError and SystemError: as of load_texts.
TextRows read_texts(const DataFiles& files, const TextOptions& options, int64_t rows,
                    const std::function<void(std::span<const std::string_view> texts)>& take);

struct TextLines {
  int64_t lines = 0;
  int64_t invalid_utf8 = 0;
};

// The same of one file whose texts are its lines, whatever its name is, and which may have none. Of the options those of
// lines count. UserError and SystemError: as of LineReader.
TextLines read_text_lines(const std::filesystem::path& path, const TextOptions& options, int64_t rows,
                          const std::function<void(std::span<const std::string_view> texts)>& take);

// The tokenizer gets a few hundred texts at a time, without pairs, and truncates nothing. UserError and SystemError of
// read_table; UserError: an empty file, lines beside tables, a column that is not there or whose cells are lists or, unnamed, numbers; texts
// that have no token among them all; tokens that do not fit (MemoryWatch).
LoadedTexts load_texts(const DataFiles& files, const TokenizeFunction& tokenize,
                       const TextOptions& options = {});

// The same to files of tokens (data/shard_file.h) in a directory, whose names `shards` gets in order: what is returned
// is all but the samples. Files are read once, some hundred rows at a time, and none of them is held.
LoadedTexts stream_texts(const DataFiles& files, const TokenizeFunction& tokenize, const TextOptions& options,
                         const std::filesystem::path& directory, std::vector<std::string>& shards);

}  // namespace shoehorn
