#include "data/load_dataset.h"

#include <algorithm>

#include "base/error.h"

namespace shoehorn {
namespace {

// Enough for every thread of the tokenizer, few enough that the encodings in flight are small beside the data
// set.
constexpr int64_t kChunk = 512;

void keep_rows(Table& table, int64_t rows) {
  for (Column& column : table.columns) column.truncate(rows);
  table.row_lines.resize(static_cast<size_t>(rows));
}

void check_is_text(const Table& table, int64_t column) {
  const Column& texts = table.columns[static_cast<size_t>(column)];
  for (int64_t row = 0; row < texts.size(); ++row) {
    if (texts.kind(row) != CellKind::kList) continue;
    throw user_error(
        "[{}] expected a text in column '{}', got a list; join its parts, or name another column",
        table.place(row), table.column_names[static_cast<size_t>(column)]);
  }
}

void set_labels(const Table& table, const std::vector<int64_t>& columns, const LabelMap& map,
                DatasetBuilder& builder) {
  if (columns.empty()) return;
  if (map.problem == ProblemType::kSingleLabel) {
    builder.set_class_labels(class_labels(table, columns, map));
  } else {
    builder.set_value_labels(value_labels(table, columns, map), map.num_labels());
  }
}

}  // namespace

LoadedDataset load_dataset(const std::filesystem::path& path, const TokenizeFunction& tokenize,
                           const LoadOptions& options) {
  Table table = read_table(path, options.table);
  LoadedDataset loaded;
  loaded.invalid_utf8 = table.invalid_utf8;
  TextColumns columns = find_text_columns(table, options.columns);
  check_is_text(table, columns.text);
  if (columns.pair >= 0) check_is_text(table, columns.pair);
  if (!options.read_labels) columns.labels.clear();
  if (options.read_labels && !columns.has_labels()) {
    throw user_error(
        "[{}] expected a column of labels called label or labels, got columns: {}; name it with "
        "label_column_name",
        table.source, fmt::join(table.column_names, ", "));
  }
  // Classes are those of the whole file, as in run_glue, which cuts the set afterwards.
  if (columns.has_labels()) {
    loaded.labels =
        options.labels != nullptr ? *options.labels : find_labels(table, columns.labels, options.find);
    loaded.labels_are_ids = labels_are_ids(table, columns.labels, loaded.labels);
  }
  if (options.max_samples > 0 && options.max_samples < table.rows()) keep_rows(table, options.max_samples);

  const Column& texts = table.columns[static_cast<size_t>(columns.text)];
  const Column* pairs = columns.pair < 0 ? nullptr : &table.columns[static_cast<size_t>(columns.pair)];
  DatasetBuilder builder;
  builder.reserve(table.rows(), 0);
  std::vector<TextExample> examples;
  for (int64_t begin = 0; begin < table.rows(); begin += kChunk) {
    const int64_t end = std::min(begin + kChunk, table.rows());
    examples.clear();
    for (int64_t row = begin; row < end; ++row) {
      examples.push_back(
          {texts.text(row), pairs != nullptr ? pairs->text(row) : std::string_view(), pairs != nullptr});
      loaded.empty_texts += texts.text(row).empty() ? 1 : 0;
      loaded.empty_texts += pairs != nullptr && pairs->text(row).empty() ? 1 : 0;
    }
    const std::vector<TokenizedExample> encodings = tokenize(examples);
    CHECK(encodings.size() == examples.size(), "{} encodings of {} texts", encodings.size(), examples.size());
    for (const TokenizedExample& encoding : encodings)
      builder.add(encoding.input_ids, encoding.token_type_ids);
  }
  set_labels(table, columns.labels, loaded.labels, builder);
  loaded.dataset = builder.finish();
  return loaded;
}

}  // namespace shoehorn
