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

}  // namespace

LoadedDataset load_dataset(const std::filesystem::path& path, const TokenizeFunction& tokenize,
                           const LoadOptions& options) {
  Table table = read_table(path, options.table);
  LoadedDataset loaded;
  loaded.invalid_utf8 = table.invalid_utf8;
  TextColumns columns = find_text_columns(table, options.columns);
  if (!options.read_labels) columns.label = -1;
  if (options.read_labels && columns.label < 0) {
    throw user_error(
        "[{}] expected a column of labels called label or labels, got columns: {}; name it with "
        "label_column_name",
        table.source, fmt::join(table.column_names, ", "));
  }
  // Classes are those of the whole file, as in run_glue, which cuts the set afterwards.
  if (columns.label >= 0) {
    loaded.labels =
        options.labels != nullptr ? *options.labels : find_labels(table, columns.label, options.model_names);
    loaded.labels_are_ids = labels_are_ids(table, columns.label, loaded.labels);
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
  if (columns.label >= 0 && loaded.labels.is_regression) {
    builder.set_value_labels(value_labels(table, columns.label));
  } else if (columns.label >= 0) {
    builder.set_class_labels(class_labels(table, columns.label, loaded.labels));
  }
  loaded.dataset = builder.finish();
  return loaded;
}

}  // namespace shoehorn
