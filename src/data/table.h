// Rows of text from files: csv, tab-separated values, JSON lines, or one JSON array. Each may be compressed
// (io/input_stream.h: .csv.gz, .jsonl.zst, …). Several files are one table: each has the same columns, in any order.
//
//   .csv           RFC 4180: a header line, commas, fields in double quotes may hold commas, line ends and
//                  doubled quotes. A quote inside a field that does not begin with one is an ordinary
//                  character.
//   .tsv           a header line and tabs. Quotes are ordinary characters: GLUE's files, MRPC among them, are
//                  written without quoting and hold unbalanced quotes.
//                  (Of a table that is one column a header with the separator of another format is an error.)
//   .txt           as .tsv if the first line has a tab; else a text a line, in a column `text`, without a header. An
//                  empty line is a missing text: rows are lines.
//   .jsonl .json   one JSON object a line, or a file that is one array of objects. The first object's keys
//                  are the columns; each object has the same keys, in any order, with scalar values or lists
//                  of them.
//   -              standard input: one of these, by its first line (data/data_format.h)
//
// Lines end with LF or CRLF; empty lines are skipped but where a line is a text; a UTF-8 byte order mark is skipped. A header field
// without a name becomes "Unnamed: i", as a csv file with an index column has it. Bytes that are not UTF-8
// are read as U+FFFD, and counted: names of columns, texts and labels are always UTF-8.
//
// Files are read line by line: beyond the table itself, memory holds one record.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/growing_array.h"
#include "data/data_files.h"
#include "data/data_format.h"

namespace shoehorn {

// The kind of a cell, as far as labels need it. Null: an empty csv or tsv field, quoted or not, or JSON's
// null. Integer: fits in int64. Real: any other finite number. String: other text, and JSON's true and false
// ("true", "false"). List: a JSON array, stored as its text. With TableOptions::objects_may_differ also, without a text, an object:
// a JSON object, or a list of such or of lists; and absent: the row has no such key.
enum class CellKind : uint8_t { kNull, kInteger, kReal, kString, kList, kObject, kAbsent };

// The cells of one column, their text end to end.
class Column {
 public:
  int64_t size() const { return static_cast<int64_t>(kinds_.size()); }
  std::string_view text(int64_t row) const;
  CellKind kind(int64_t row) const { return kinds_[static_cast<size_t>(row)]; }
  void append(std::string_view text, CellKind kind);
  // Keeps the first `rows` rows.
  void truncate(int64_t rows);
  int64_t memory_bytes() const;
  int64_t text_bytes() const { return static_cast<int64_t>(bytes_.size()); }

 private:
  GrowingArray<char> bytes_;
  GrowingArray<int64_t> ends_;
  GrowingArray<CellKind> kinds_;
};

struct Table {
  // One of the files, and the first row that is its.
  struct File {
    std::string name;
    int64_t first_row = 0;
  };

  std::string source;  // the file or the files, for messages
  std::vector<std::string> column_names;
  std::vector<Column> columns;      // one per name, all of the same size
  GrowingArray<int64_t> row_lines;  // the line of its file, from 1, where each row begins
  std::vector<File> files = {};     // in their order
  int64_t invalid_utf8 = 0;         // ill-formed UTF-8 sequences in the files
  bool has_types = false;  // as JSON: the kinds of cells are the file's, and not what texts look like

  int64_t rows() const { return static_cast<int64_t>(row_lines.size()); }
  // The last file stays, of which more rows may come.
  void clear_rows();
  // The column's index, or -1.
  int64_t find_column(std::string_view name) const;
  // "train.csv:17", for messages.
  std::string place(int64_t row) const;
  int64_t memory_bytes() const;
  int64_t text_bytes() const;  // of all cells
};

struct TableOptions {
  int64_t max_record_bytes = int64_t{64} << 20;  // the longest line, and the longest quoted record
  std::optional<DataFormat> format = {};         // in place of what the file's name, or its first line, says
  // Of JSON: rows may lack keys of the first object, have others, which are not read, and values of any shape. For readers of one
  // column.
  bool objects_may_differ = false;
};

// Reads whole files. UserError naming file and line: those of open_input and data_format_of, an empty file, a header
// without rows, a duplicate column, other columns than those of the first file, a row with another number of fields or
// other keys, a quote that is never closed or text behind a closing one, malformed JSON, a cell with an object or a list
// of lists, a line over the limit, UTF-16. SystemError: a file cannot be opened or read to its end.
// `on_row` is told after each row and may be unset; what it throws ends the reading.
Table read_table(const DataFiles& files, const TableOptions& options = {},
                 const std::function<void(const Table& so_far)>& on_row = {});

// The size of a piece of a table.
struct PieceLimits {
  PieceLimits(int64_t most_rows) : rows(most_rows) {}  // not `explicit`: mostly there is no other limit

  int64_t rows;
  // A piece that has so many bytes of cells ends at the next multiple of `row_multiple` rows.
  int64_t bytes = std::numeric_limits<int64_t>::max();
  int64_t row_multiple = 1;
};

// The same files in pieces: `take` is given a table within the limits, again and again, so that memory
// holds no more than one. A piece may have rows of several files. What it throws ends the reading. Returns the
// ill-formed stretches of bytes in all files.
int64_t read_table_in_pieces(const DataFiles& files, const TableOptions& options, PieceLimits limits,
                             const std::function<void(const Table& piece)>& take);

// The kind of a csv or tsv field: spaces around a number do not count.
CellKind classify_field(std::string_view text);

struct ListElement {
  std::string text;
  CellKind kind;  // never kList
};

// The elements of a cell of kind kList.
std::vector<ListElement> list_elements(std::string_view text);

}  // namespace shoehorn
