// The parsers behind read_table, one per format. Each fills a table whose `source` is set, and throws as
// listed there.
#pragma once

#include <functional>
#include <limits>

#include "data/line_reader.h"
#include "data/table.h"

namespace shoehorn {

// Where the rows of a file go: they stay in its table, or are handed on in pieces.
class RowPieces {
 public:
  RowPieces() = default;
  RowPieces(PieceLimits limits, const std::function<void(const Table& piece)>& take)
      : limits_(limits), take_(&take) {}

  // After each row that was appended.
  void row_added(Table& table) {
    ++total_;
    if (take_ == nullptr) return;
    const bool is_large = table.text_bytes() >= limits_.bytes && table.rows() % limits_.row_multiple == 0;
    if (table.rows() >= limits_.rows || is_large) hand_on(table);
  }
  // After the last one.
  void finish(Table& table) {
    if (take_ != nullptr && table.rows() > 0) hand_on(table);
  }
  int64_t total() const { return total_; }

 private:
  void hand_on(Table& table) {
    (*take_)(table);
    table.clear_rows();
  }

  PieceLimits limits_ = std::numeric_limits<int64_t>::max();
  const std::function<void(const Table& piece)>* take_ = nullptr;
  int64_t total_ = 0;
};

enum class Quoting : uint8_t { kQuoted, kLiteral };

void read_delimited(LineReader& lines, char delimiter, Quoting quoting, const TableOptions& options,
                    RowPieces& pieces, Table& table);

void read_json_rows(LineReader& lines, RowPieces& pieces, Table& table);

// Checks the column names and creates the columns. UserError for a duplicate name.
void set_columns(Table& table, std::vector<std::string> names, int64_t line);

}  // namespace shoehorn
