// Puts rows of one file after another into a table, whose columns are those of the first file. Rows stay in the table, or
// are handed on in pieces.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "data/table.h"

namespace shoehorn {

// For each file: begin_file, set_columns, then for each row append() for each of its cells and end_row, then end_file.
class TableBuilder {
 public:
  // `source` is the table's. The one table is what finish() returns. `on_row`, which must outlive this and may be unset, is
  // told after each row.
  TableBuilder(std::string source, const std::function<void(const Table& so_far)>& on_row);
  // `take`, which must outlive this, gets tables within the limits.
  TableBuilder(std::string source, PieceLimits limits, const std::function<void(const Table& piece)>& take);

  void begin_file(const std::string& name);
  // The columns of the file, in its order, which its line `line` names. UserError: a column that comes twice; other
  // columns than those of the first file.
  void set_columns(const std::vector<std::string>& names, int64_t line);
  // Of the first file; none before.
  const std::vector<std::string>& column_names() const { return table_.column_names; }
  // The cell of the row in the file's column `column`.
  void append(size_t column, std::string_view text, CellKind kind) {
    table_.columns[order_[column]].append(text, kind);
  }
  void end_row(int64_t line) {
    table_.row_lines.push_back(line);
    ++file_rows_;
    if (take_ != nullptr && is_full()) hand_on();
    if (on_row_ != nullptr) (*on_row_)(table_);
  }
  // The kinds of cells are the file's, and not what texts look like.
  void types_are_stated() { table_.has_types = true; }
  void end_file(int64_t invalid_utf8) { table_.invalid_utf8 += invalid_utf8; }
  // The table; without rows where they were handed on.
  Table finish();

  // Rows of this file so far.
  int64_t file_rows() const { return file_rows_; }

 private:
  bool is_full() const {
    const bool is_large = table_.text_bytes() >= limits_.bytes && table_.rows() % limits_.row_multiple == 0;
    return table_.rows() >= limits_.rows || is_large;
  }
  void hand_on();
  // Places of the file's columns among the table's.
  std::vector<size_t> places_of(const std::vector<std::string>& names, int64_t line) const;

  Table table_;
  PieceLimits limits_ = std::numeric_limits<int64_t>::max();
  const std::function<void(const Table& piece)>* take_ = nullptr;
  const std::function<void(const Table& so_far)>* on_row_ = nullptr;
  std::string first_file_;
  std::string file_;
  std::vector<size_t> order_;
  int64_t file_rows_ = 0;
};

}  // namespace shoehorn
