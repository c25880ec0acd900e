#include "data/texts.h"

#include <algorithm>

#include "base/error.h"
#include "data/data_format.h"
#include "data/line_reader.h"
#include "data/memory_watch.h"
#include "data/shard_writer.h"
#include "data/text_columns.h"
#include "io/input_stream.h"

namespace shoehorn {
namespace {

// Enough for every thread of the tokenizer, few enough that the encodings in flight are small beside the texts.
constexpr int64_t kTextsAtOnce = 512;
// So much of them at most, and one more: a line may be a book.
constexpr int64_t kBytesAtOnce = int64_t{8} << 20;

// The texts of some lines, end to end.
class Lines {
 public:
  Lines(int64_t rows, const std::function<void(std::span<const std::string_view>)>& take)
      : rows_(static_cast<size_t>(rows)), take_(take) {}

  void add(std::string_view line, bool ends_in_newline) {
    text_ += line;
    if (ends_in_newline) text_ += '\n';
    ends_.push_back(text_.size());
    ++total_;
    if (ends_.size() == rows_ || std::ssize(text_) >= kBytesAtOnce) hand_on();
  }

  void hand_on() {
    if (ends_.empty()) return;
    std::vector<std::string_view> texts;
    size_t begin = 0;
    for (const size_t end : ends_) {
      texts.push_back(std::string_view(text_).substr(begin, end - begin));
      begin = end;
    }
    take_(texts);
    text_.clear();
    ends_.clear();
  }

  int64_t total() const { return total_; }

 private:
  size_t rows_;
  const std::function<void(std::span<const std::string_view>)>& take_;
  std::string text_;
  std::vector<size_t> ends_;
  int64_t total_ = 0;
};

// A CR ends a line, alone or before an LF.
void add_lines(std::string_view line, bool ends_in_newline, bool keep_linebreaks, Lines& lines) {
  if (ends_in_newline && line.ends_with('\r')) line.remove_suffix(1);
  for (size_t end = line.find('\r'); end != std::string_view::npos; end = line.find('\r')) {
    lines.add(line.substr(0, end), keep_linebreaks);
    line.remove_prefix(end + 1);
    if (line.empty() && !ends_in_newline) return;
  }
  lines.add(line, ends_in_newline && keep_linebreaks);
}

TextRows read_column(const DataFiles& files, const TextOptions& options, int64_t rows,
                     const std::function<void(std::span<const std::string_view>)>& take) {
  TextRows found;
  int64_t column = -1;
  PieceLimits limits(rows);
  limits.bytes = kBytesAtOnce;
  TableOptions table = options.table;
  table.objects_may_differ = true;
  bool has_seen_text = false;
  found.invalid_utf8 = read_table_in_pieces(files, table, limits, [&](const Table& piece) {
    // Until a text has come: the first rows may be empty.
    if (!has_seen_text) {
      column = find_language_column(piece, options.text_column, options.preferred_text_column);
      found.text_column = piece.column_names[static_cast<size_t>(column)];
      has_seen_text = has_text(piece.columns[static_cast<size_t>(column)]);
    }
    check_are_texts(piece, column);
    const Column& cells = piece.columns[static_cast<size_t>(column)];
    std::vector<std::string_view> texts;
    for (int64_t row = 0; row < piece.rows(); ++row) texts.push_back(cells.text(row));
    take(texts);
  });
  return found;
}

bool is_table(const std::filesystem::path& path) {
  return !is_standard_input(path) && data_format_of(path) != DataFormat::kText;
}

// Tokenizes the files; `add` gets the ids of each text, `on_part` the number of those so far, after some hundred.
template <typename Add, typename OnPart>
LoadedTexts tokenize_texts(const DataFiles& files, const TokenizeFunction& tokenize,
                           const TextOptions& options, const Add& add, const OnPart& on_part) {
  LoadedTexts loaded;
  int64_t done = 0;
  const TextRows rows =
      read_texts(files, options, kTextsAtOnce, [&](std::span<const std::string_view> texts) {
        std::vector<TextExample> examples;
        for (const std::string_view text : texts) examples.push_back({text, {}, false});
        std::vector<TokenizedExample> encodings = tokenize(examples);
        CHECK(encodings.size() == texts.size(), "{} encodings of {} texts", encodings.size(), texts.size());
        for (TokenizedExample& encoding : encodings) {
          std::vector<int32_t>& ids = encoding.input_ids;
          if (options.end_token && (ids.empty() || ids.back() != *options.end_token))
            ids.push_back(*options.end_token);
          loaded.empty_texts += ids.empty() ? 1 : 0;
          add(ids);
        }
        done += std::ssize(texts);
        on_part(done);
        if (options.on_progress) options.on_progress(done);
      });
  if (loaded.empty_texts == done)
    throw user_error("[{}] expected texts, got {} without a single token", files.name(), done);
  loaded.invalid_utf8 = rows.invalid_utf8;
  loaded.text_column = rows.text_column;
  return loaded;
}

}  // namespace

TextRows read_texts(const DataFiles& files, const TextOptions& options, int64_t rows,
                    const std::function<void(std::span<const std::string_view> texts)>& take) {
  const std::vector<std::filesystem::path>& paths = files.paths();
  const auto table = std::ranges::find_if(paths, is_table);
  const auto lines = std::ranges::find_if_not(paths, is_table);
  if (lines == paths.end()) return read_column(files, options, rows, take);
  if (table != paths.end()) {
    throw user_error("[{}] expected lines of text, as in {}, got a table; give files of one kind",
                     table->string(), input_name(*lines));
  }
  if (!options.text_column.empty()) {
    throw user_error(
        "[text_column_names] expected none for {}, whose texts are its lines, got '{}'; columns are in csv, tsv and "
        "json lines",
        files.name(), options.text_column);
  }
  TextRows found;
  for (const std::filesystem::path& path : paths) {
    const TextLines read = read_text_lines(path, options, rows, take);
    if (read.lines == 0) throw user_error("[{}] expected lines of text, got an empty file", input_name(path));
    found.invalid_utf8 += read.invalid_utf8;
  }
  return found;
}

TextLines read_text_lines(const std::filesystem::path& path, const TextOptions& options, int64_t rows,
                          const std::function<void(std::span<const std::string_view>)>& take) {
  LineReader reader(path, options.table.max_record_bytes);
  Lines lines(rows, take);
  std::string line;
  while (reader.next(line)) add_lines(line, reader.ended_in_newline(), options.keep_linebreaks, lines);
  lines.hand_on();
  return {.lines = lines.total(), .invalid_utf8 = reader.invalid_utf8()};
}

LoadedTexts load_texts(const DataFiles& files, const TokenizeFunction& tokenize, const TextOptions& options) {
  DatasetBuilder builder;
  MemoryWatch memory(files, options.memory_budget_bytes);
  LoadedTexts loaded = tokenize_texts(
      files, tokenize, options,
      [&](std::span<const int32_t> ids) { builder.add({.input_ids = ids, .may_be_empty = true}); },
      [&](int64_t texts) { memory.check(builder.memory_bytes(), texts); });
  loaded.texts = builder.finish();
  return loaded;
}

LoadedTexts stream_texts(const DataFiles& files, const TokenizeFunction& tokenize, const TextOptions& options,
                         const std::filesystem::path& directory, std::vector<std::string>& shards) {
  ShardWriter writer(directory, {LabelKind::kNone});
  LoadedTexts loaded = tokenize_texts(
      files, tokenize, options,
      [&](std::span<const int32_t> ids) { writer.add({.input_ids = ids, .may_be_empty = true}, {}); },
      [](int64_t) {});
  shards = writer.finish();
  return loaded;
}

}  // namespace shoehorn
