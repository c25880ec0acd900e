#include "fuzz/table_properties.h"

#include "base/error.h"
#include "data/load_dataset.h"
#include "fuzz/reader.h"

namespace shoehorn::fuzz {
namespace {

std::vector<TokenizedExample> one_token_each(std::span<const TextExample> texts) {
  return std::vector<TokenizedExample>(texts.size(), {.input_ids = {1}, .token_type_ids = {}});
}

void check_equal(const Table& read, const Table& written) {
  CHECK(read.column_names == written.column_names, "other columns");
  CHECK(read.rows() == written.rows(), "{} rows are written as {}", read.rows(), written.rows());
  for (size_t c = 0; c < read.columns.size(); ++c) {
    for (int64_t row = 0; row < read.rows(); ++row) {
      CHECK(read.columns[c].text(row) == written.columns[c].text(row), "another text in row {} of '{}'", row,
            read.column_names[c]);
    }
  }
}

}  // namespace

void read_table_of(std::string_view extension, std::string_view input, std::string (*write)(const Table&)) {
  static const InputDirectory directory;
  const std::filesystem::path file = directory.write(std::string("input") += extension, input);
  const Table table = read_table(file);
  check_equal(table, read_table(directory.write(std::string("written") += extension, write(table))));
  const LoadedDataset loaded = load_dataset(file, one_token_each);
  CHECK(loaded.dataset.size() == table.rows(), "{} rows become {} samples", table.rows(),
        loaded.dataset.size());
}

}  // namespace shoehorn::fuzz
