#include "data/load_dataset.h"

#include <algorithm>

#include "base/error.h"
#include "data/memory_watch.h"
#include "data/shard_writer.h"
#include "data/similar_labels.h"
#include "io/input_stream.h"

namespace shoehorn {
namespace {

// Enough for every thread of the tokenizer, few enough that the encodings in flight are small beside the data
// set.
constexpr int64_t kChunk = 512;

// Where the texts and labels of a file are, and what the labels mean.
struct FoundColumns {
  TextColumns columns;
  LabelMap labels = {};
  bool labels_are_ids = false;
  std::vector<std::string> notices = {};
};

std::vector<std::string> names_of(const Table& table, std::vector<int64_t> columns) {
  std::vector<std::string> names;
  for (const int64_t column : columns) {
    if (column >= 0) names.push_back(table.column_names[static_cast<size_t>(column)]);
  }
  return names;
}

void check_are_texts(const Table& table, const TextColumns& columns) {
  check_are_texts(table, columns.text);
  if (columns.pair >= 0) check_are_texts(table, columns.pair);
}

bool is_plain_text(const std::string& source) {
  return without_compression(source).extension() == ".txt";
}

// Classes are those of the whole file, as in run_glue, which cuts the set afterwards.
FoundColumns find_columns(const Table& table, const LoadOptions& options) {
  FoundColumns found{.columns = find_text_columns(table, options.columns)};
  TextColumns& columns = found.columns;
  check_are_texts(table, columns);
  if (!options.read_labels) columns.labels.clear();
  if (options.read_labels && !columns.has_labels()) {
    throw user_error(
        "[{}] expected a column of labels called label or labels, got columns: {}; name it with "
        "label_column_name{}",
        table.source, fmt::join(table.column_names, ", "),
        is_plain_text(table.source)
            ? "; a table in a .txt has tabs between its columns; to train a language model on plain text, give --task causal-lm"
            : "");
  }
  if (columns.has_labels()) {
    found.labels =
        options.labels != nullptr ? *options.labels : find_labels(table, columns.labels, options.find);
    const bool is_asked_for = options.find.problem || (options.find.model != nullptr &&
                                                       options.find.model->problem == found.labels.problem);
    const bool are_values = found.labels.problem == ProblemType::kRegression;
    if (options.labels == nullptr && !(are_values && is_asked_for))
      found.notices = similar_label_notices(table, columns.labels, found.labels);
    found.labels_are_ids = labels_are_ids(table, columns.labels, found.labels);
  }
  return found;
}

// What is known before texts are tokenized.
LoadedDataset described(const Table& table, const FoundColumns& found) {
  LoadedDataset loaded;
  loaded.labels = found.labels;
  loaded.labels_are_ids = found.labels_are_ids;
  loaded.text_columns = names_of(table, {found.columns.text, found.columns.pair});
  loaded.label_columns = names_of(table, found.columns.labels);
  loaded.notices = found.notices;
  return loaded;
}

// The labels of all rows, as numbers.
struct LabelRows {
  LabelShape shape = {};
  std::vector<int32_t> classes = {};
  std::vector<float> values = {};

  SampleLabels of(int64_t row) const {
    const auto at = static_cast<size_t>(row);
    const auto width = static_cast<size_t>(shape.width);
    if (shape.kind == LabelKind::kClass) return {.class_label = classes[at]};
    if (shape.kind == LabelKind::kValue) return {.values = std::span(values).subspan(at * width, width)};
    return {};
  }
};

LabelRows label_rows(const Table& table, const FoundColumns& found) {
  const std::vector<int64_t>& columns = found.columns.labels;
  if (columns.empty()) return {};
  if (found.labels.problem == ProblemType::kSingleLabel)
    return {.shape = {LabelKind::kClass}, .classes = class_labels(table, columns, found.labels)};
  return {.shape = {LabelKind::kValue, found.labels.num_labels()},
          .values = value_labels(table, columns, found.labels)};
}

// Tokenizes the texts of rows [begin, end), and counts those that are empty. `take(row, encoding)` gets each.
template <typename Take>
void tokenize_rows(const Table& table, const TextColumns& columns, int64_t begin, int64_t end,
                   const TokenizeFunction& tokenize, LoadedDataset& loaded, const Take& take) {
  const Column& texts = table.columns[static_cast<size_t>(columns.text)];
  const Column* pairs = columns.pair < 0 ? nullptr : &table.columns[static_cast<size_t>(columns.pair)];
  std::vector<TextExample> examples;
  for (int64_t row = begin; row < end; ++row) {
    examples.push_back(
        {texts.text(row), pairs != nullptr ? pairs->text(row) : std::string_view(), pairs != nullptr});
    loaded.empty_texts += texts.text(row).empty() ? 1 : 0;
    loaded.empty_texts += pairs != nullptr && pairs->text(row).empty() ? 1 : 0;
  }
  const std::vector<TokenizedExample> encodings = tokenize(examples);
  CHECK(encodings.size() == examples.size(), "{} encodings of {} texts", encodings.size(), examples.size());
  for (size_t i = 0; i < encodings.size(); ++i) take(begin + static_cast<int64_t>(i), encodings[i]);
}

void keep_rows(Table& table, int64_t rows, const std::vector<int64_t>& columns) {
  for (const int64_t column : columns) table.columns[static_cast<size_t>(column)].truncate(rows);
  table.row_lines.resize(static_cast<size_t>(rows));
}

// All rows of the label columns, and of each other column the first cell with a text, which tells that it has any.
class LabelCells {
 public:
  explicit LabelCells(const ColumnOptions& options) : options_(options) {}

  void add(const Table& piece) {
    if (cells_.columns.empty()) begin(piece);
    for (size_t c = 0; c < piece.columns.size(); ++c) {
      const Column& from = piece.columns[c];
      Column& to = cells_.columns[c];
      for (int64_t row = 0; row < from.size() && (is_label_[c] || to.size() == 0); ++row) {
        if (is_label_[c] || from.kind(row) == CellKind::kString) to.append(from.text(row), from.kind(row));
      }
    }
    for (const Table::File& file : piece.files) {
      if (cells_.files.empty() || cells_.files.back().name != file.name)
        cells_.files.push_back({file.name, cells_.rows() + file.first_row});
    }
    cells_.row_lines.append(piece.row_lines);
  }

  Table& cells() { return cells_; }

 private:
  void begin(const Table& piece) {
    cells_.source = piece.source;
    cells_.column_names = piece.column_names;
    cells_.columns.resize(piece.columns.size());
    is_label_.resize(piece.columns.size());
    for (const int64_t column : find_label_columns(piece, options_))
      is_label_[static_cast<size_t>(column)] = true;
  }

  const ColumnOptions& options_;
  Table cells_;
  std::vector<bool> is_label_;
};

void report_rows_read(const LoadOptions& options, int64_t rows) {
  if (options.on_rows_read && rows % kChunk == 0) options.on_rows_read(rows);
}

void report_progress(const LoadOptions& options, int64_t done, int64_t rows) {
  if (options.on_progress) options.on_progress(done, rows);
}

int64_t rows_wanted(const LoadOptions& options, int64_t rows) {
  return options.max_samples > 0 ? std::min(options.max_samples, rows) : rows;
}

}  // namespace

LoadedDataset load_dataset(const DataFiles& files, const TokenizeFunction& tokenize,
                           const LoadOptions& options) {
  MemoryWatch memory(files, options.memory_budget_bytes);
  if (!options.table.format) memory.check_table();
  Table table = read_table(files, options.table, [&](const Table& so_far) {
    memory.check(so_far.memory_bytes(), so_far.rows());
    report_rows_read(options, so_far.rows());
  });
  FoundColumns found = find_columns(table, options);
  LoadedDataset loaded = described(table, found);
  loaded.invalid_utf8 = table.invalid_utf8;
  const int64_t rows = rows_wanted(options, table.rows());
  keep_rows(table, rows, found.columns.labels);
  DatasetBuilder builder;
  builder.reserve(rows, 0);
  for (int64_t begin = 0; begin < rows; begin += kChunk) {
    const int64_t end = std::min(begin + kChunk, rows);
    tokenize_rows(table, found.columns, begin, end, tokenize, loaded,
                  [&](int64_t, const TokenizedExample& encoding) {
                    builder.add(encoding.input_ids, encoding.token_type_ids);
                  });
    memory.check(table.memory_bytes() + builder.memory_bytes(), end);
    report_progress(options, end, rows);
  }
  LabelRows labels = label_rows(table, found);
  if (labels.shape.kind == LabelKind::kClass) builder.set_class_labels(std::move(labels.classes));
  if (labels.shape.kind == LabelKind::kValue)
    builder.set_value_labels(std::move(labels.values), labels.shape.width);
  loaded.dataset = builder.finish();
  return loaded;
}

LoadedDataset stream_dataset(const DataFiles& files, const TokenizeFunction& tokenize,
                             const LoadOptions& options, const std::filesystem::path& directory,
                             std::vector<std::string>& shards) {
  LoadedDataset loaded;
  FoundColumns found;
  LabelRows labels;
  int64_t rows = 0;
  {
    LabelCells label_cells(options.columns);
    const int64_t invalid_utf8 = read_table_in_pieces(files, options.table, kChunk, [&](const Table& piece) {
      label_cells.add(piece);
      report_rows_read(options, label_cells.cells().rows());
    });
    Table& cells = label_cells.cells();
    found = find_columns(cells, options);
    loaded = described(cells, found);
    loaded.invalid_utf8 = invalid_utf8;
    rows = rows_wanted(options, cells.rows());
    keep_rows(cells, rows, found.columns.labels);
    labels = label_rows(cells, found);
  }
  ShardWriter writer(directory, labels.shape);
  int64_t done = 0;
  read_table_in_pieces(files, options.table, kChunk, [&](const Table& piece) {
    check_are_texts(piece, found.columns);
    const int64_t first = done;
    const int64_t end = std::min(piece.rows(), rows - first);
    if (end == 0) return;
    tokenize_rows(piece, found.columns, 0, end, tokenize, loaded,
                  [&](int64_t row, const TokenizedExample& encoding) {
                    writer.add({.input_ids = encoding.input_ids, .token_type_ids = encoding.token_type_ids},
                               labels.of(first + row));
                  });
    done += end;
    report_progress(options, done, rows);
  });
  if (done != rows) {
    throw system_error(
        "[{}] expected {} rows, got {} when reading it again; was it changed while being read?", files.name(),
        rows, done);
  }
  shards = writer.finish();
  return loaded;
}

}  // namespace shoehorn
