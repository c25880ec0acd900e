// Dataset::from_columns: checks what a caller hands in, column by column and row by row.
#include <algorithm>
#include <limits>
#include <string_view>

#include "base/error.h"
#include "base/format.h"
#include "data/dataset.h"

namespace shoehorn {
namespace {

using Rows = Dataset::Rows;

struct Columns {
  const Rows* input_ids = nullptr;
  const Rows* token_type_ids = nullptr;
  const Rows* attention_mask = nullptr;
  const Rows* position_ids = nullptr;
  const Rows* decoder_input_ids = nullptr;
  const Rows* decoder_attention_mask = nullptr;
  const Dataset::ColumnData* labels = nullptr;
};

// A stream's rows of ids, and the mask that says which of them count.
struct StreamRows {
  std::string_view name;
  const Rows* ids;
  std::string_view mask_name;
  const Rows* mask;  // null: all
};

StreamRows stream_rows(const Columns& columns, TokenStream stream) {
  if (stream == TokenStream::kInput)
    return {"input_ids", columns.input_ids, "attention_mask", columns.attention_mask};
  return {"decoder_input_ids", columns.decoder_input_ids, "decoder_attention_mask",
          columns.decoder_attention_mask};
}

const Rows* rows_of(const std::string& name, const Dataset::ColumnData& data) {
  const Rows* rows = std::get_if<Rows>(&data);
  if (rows == nullptr) throw user_error("[{}] expected rows of integers, got numbers of another kind", name);
  return rows;
}

template <typename T>
void set_once(const T*& place, const T* column, const std::string& name) {
  if (place != nullptr) throw user_error("[{}] expected one such column, got two", name);
  place = column;
}

Columns sort_out(const Dataset::NamedColumns& named) {
  Columns columns;
  const std::vector<std::pair<std::string_view, const Rows**>> integer_rows = {
      {"input_ids", &columns.input_ids},
      {"token_type_ids", &columns.token_type_ids},
      {"attention_mask", &columns.attention_mask},
      {"position_ids", &columns.position_ids},
      {"decoder_input_ids", &columns.decoder_input_ids},
      {"decoder_attention_mask", &columns.decoder_attention_mask}};
  for (const auto& [name, data] : named) {
    const auto known =
        std::ranges::find(integer_rows, name, &std::pair<std::string_view, const Rows**>::first);
    if (known != integer_rows.end()) {
      set_once(*known->second, rows_of(name, data), name);
    } else if (name == "labels" || name == "label" || name == "label_ids") {
      set_once(columns.labels, &data, name);
    } else {
      std::vector<std::string> names;
      for (const auto& [known_name, place] : integer_rows) names.emplace_back(known_name);
      names.emplace_back("labels");
      const std::string nearest = nearest_name(name, names);
      throw user_error("[from_columns] expected one of {}, got '{}'{}", fmt::join(names, ", "), name,
                       nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest));
    }
  }
  if (columns.input_ids == nullptr) throw user_error("[from_columns] expected a column input_ids, got none");
  if (columns.input_ids->empty()) throw user_error("[input_ids] expected at least one row, got none");
  if (columns.decoder_attention_mask != nullptr && columns.decoder_input_ids == nullptr)
    throw user_error("[decoder_attention_mask] expected decoder_input_ids with it, got none");
  return columns;
}

void check_size(std::string_view name, size_t size, size_t samples) {
  if (size != samples) {
    throw user_error("[{}] expected {} rows, as input_ids has, got {}", name, samples, size);
  }
}

void check_sizes(const Columns& columns) {
  const std::vector<std::pair<std::string_view, const Rows*>> all = {
      {"token_type_ids", columns.token_type_ids},
      {"attention_mask", columns.attention_mask},
      {"position_ids", columns.position_ids},
      {"decoder_input_ids", columns.decoder_input_ids},
      {"decoder_attention_mask", columns.decoder_attention_mask}};
  for (const auto& [name, rows] : all) {
    if (rows != nullptr) check_size(name, rows->size(), columns.input_ids->size());
  }
}

void check_row_size(std::string_view name, size_t row, const Rows& rows, const StreamRows& stream) {
  if (rows[row].size() != (*stream.ids)[row].size()) {
    throw user_error("[{}] expected {} elements in row {}, as {} has, got {}", name,
                     (*stream.ids)[row].size(), row, stream.name, rows[row].size());
  }
}

// How many tokens of the row a mask keeps.
size_t kept_tokens(const StreamRows& stream, size_t row) {
  if (stream.mask == nullptr) return (*stream.ids)[row].size();
  check_row_size(stream.mask_name, row, *stream.mask, stream);
  const std::vector<int64_t>& mask = (*stream.mask)[row];
  const auto kept = std::find(mask.begin(), mask.end(), 0);
  if (!std::all_of(mask.begin(), kept, [](int64_t m) { return m == 1; }) ||
      !std::all_of(kept, mask.end(), [](int64_t m) { return m == 0; })) {
    throw user_error(
        "[{}] expected ones and then zeros in row {}, got another pattern; pad on the right (padding_side)",
        stream.mask_name, row);
  }
  return static_cast<size_t>(kept - mask.begin());
}

int32_t to_int32(std::string_view name, size_t row, int64_t value) {
  if (value < 0 || value > std::numeric_limits<int32_t>::max()) {
    throw user_error("[{}] expected numbers from 0 to {}, got {} in row {}", name,
                     std::numeric_limits<int32_t>::max(), value, row);
  }
  return static_cast<int32_t>(value);
}

int32_t to_label(size_t row, int64_t value) {
  return value == kIgnoredLabel ? kIgnoredLabel : to_int32("labels", row, value);
}

std::vector<int32_t> token_labels(const StreamRows& stream, const Rows& rows) {
  std::vector<int32_t> labels;
  for (size_t row = 0; row < rows.size(); ++row) {
    check_row_size("labels", row, rows, stream);
    const size_t kept = kept_tokens(stream, row);
    for (size_t i = 0; i < rows[row].size(); ++i) {
      const int32_t label = to_label(row, rows[row][i]);
      if (i < kept) {
        labels.push_back(label);
      } else if (label != kIgnoredLabel) {
        throw user_error("[labels] expected -100 where {} is 0, got {} in row {}", stream.mask_name, label,
                         row);
      }
    }
  }
  return labels;
}

// Where positions begin at 0 again, so does a document. `lengths`: those of the row's documents.
void find_documents(const std::vector<int64_t>& positions, size_t row, std::vector<int32_t>& lengths) {
  lengths.clear();
  for (size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] == 0) {
      lengths.push_back(1);
    } else if (!lengths.empty() && positions[i] == lengths.back()) {
      ++lengths.back();
    } else {
      throw user_error("[position_ids] expected {} in row {}, or 0 where another document begins, got {}",
                       lengths.empty() ? 0 : lengths.back(), row, positions[i]);
    }
  }
}

// What no sample of several documents can have, since each of them is a sequence.
void check_documents(const Columns& columns, size_t documents, size_t row) {
  if (documents <= 1) return;
  if (columns.decoder_input_ids != nullptr) {
    throw user_error(
        "[position_ids] expected one document in row {}, with decoder_input_ids, got {}; make each a row of its own",
        row, documents);
  }
  if (columns.labels != nullptr && !std::holds_alternative<Rows>(*columns.labels)) {
    throw user_error(
        "[position_ids] expected one document in row {}, with labels of samples, got {}; give a label for each token",
        row, documents);
  }
}

void set_value_rows(const Dataset::ValueRows& rows, DatasetBuilder& builder) {
  const size_t width = rows.front().size();
  std::vector<float> values;
  for (size_t row = 0; row < rows.size(); ++row) {
    if (rows[row].size() != width || width == 0) {
      throw user_error("[labels] expected {} values in row {}, as in the first row, got {}",
                       std::max<size_t>(1, width), row, rows[row].size());
    }
    values.insert(values.end(), rows[row].begin(), rows[row].end());
  }
  builder.set_value_labels(std::move(values), static_cast<int64_t>(width));
}

void set_labels(const Columns& columns, DatasetBuilder& builder) {
  if (columns.labels == nullptr) return;
  std::visit([&](const auto& data) { check_size("labels", data.size(), columns.input_ids->size()); },
             *columns.labels);
  if (const auto* rows = std::get_if<Rows>(columns.labels)) {
    const TokenStream stream =
        columns.decoder_input_ids == nullptr ? TokenStream::kInput : TokenStream::kDecoder;
    builder.set_token_labels(token_labels(stream_rows(columns, stream), *rows), stream);
  } else if (const auto* classes = std::get_if<std::vector<int64_t>>(columns.labels)) {
    std::vector<int32_t> labels(classes->size());
    for (size_t row = 0; row < labels.size(); ++row) labels[row] = to_label(row, (*classes)[row]);
    builder.set_class_labels(std::move(labels));
  } else if (const auto* doubles = std::get_if<std::vector<double>>(columns.labels)) {
    builder.set_value_labels(std::vector<float>(doubles->begin(), doubles->end()));
  } else if (const auto* floats = std::get_if<std::vector<float>>(columns.labels)) {
    builder.set_value_labels(*floats);
  } else {
    set_value_rows(std::get<Dataset::ValueRows>(*columns.labels), builder);
  }
}

}  // namespace

Dataset Dataset::from_columns(const NamedColumns& named) {
  const Columns columns = sort_out(named);
  check_sizes(columns);
  const StreamRows input = stream_rows(columns, TokenStream::kInput);
  const StreamRows decoder = stream_rows(columns, TokenStream::kDecoder);
  DatasetBuilder builder;
  std::vector<int32_t> ids;
  std::vector<int32_t> types;
  std::vector<int32_t> decoder_ids;
  std::vector<int32_t> documents;
  std::vector<int64_t> positions;
  const auto copy_kept = [](std::string_view name, const Rows& rows, size_t row, size_t kept,
                            std::vector<int32_t>& to) {
    to.clear();
    for (size_t i = 0; i < kept; ++i) to.push_back(to_int32(name, row, rows[row][i]));
  };
  for (size_t row = 0; row < input.ids->size(); ++row) {
    const size_t kept = kept_tokens(input, row);
    copy_kept("input_ids", *input.ids, row, kept, ids);
    if (columns.token_type_ids != nullptr) {
      check_row_size("token_type_ids", row, *columns.token_type_ids, input);
      copy_kept("token_type_ids", *columns.token_type_ids, row, kept, types);
    }
    if (columns.position_ids != nullptr) {
      check_row_size("position_ids", row, *columns.position_ids, input);
      const std::vector<int64_t>& all = (*columns.position_ids)[row];
      positions.assign(all.begin(), all.begin() + static_cast<int64_t>(kept));
      find_documents(positions, row, documents);
      check_documents(columns, documents.size(), row);
    }
    if (decoder.ids != nullptr) {
      copy_kept("decoder_input_ids", *decoder.ids, row, kept_tokens(decoder, row), decoder_ids);
      if (decoder_ids.empty())
        throw user_error("[decoder_input_ids] expected at least one token a sample, got none in sample {}",
                         row);
    }
    builder.add({.input_ids = ids,
                 .token_type_ids = types,
                 .decoder_input_ids = decoder_ids,
                 .document_lengths = documents});
  }
  set_labels(columns, builder);
  return builder.finish();
}

}  // namespace shoehorn
