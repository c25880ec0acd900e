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
  const Dataset::ColumnData* labels = nullptr;
};

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
  for (const auto& [name, data] : named) {
    if (name == "input_ids") {
      set_once(columns.input_ids, rows_of(name, data), name);
    } else if (name == "token_type_ids") {
      set_once(columns.token_type_ids, rows_of(name, data), name);
    } else if (name == "attention_mask") {
      set_once(columns.attention_mask, rows_of(name, data), name);
    } else if (name == "labels" || name == "label" || name == "label_ids") {
      set_once(columns.labels, &data, name);
    } else {
      const std::string nearest =
          nearest_name(name, {"input_ids", "token_type_ids", "attention_mask", "labels"});
      throw user_error(
          "[from_columns] expected input_ids, token_type_ids, attention_mask or labels, got '{}'{}", name,
          nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest));
    }
  }
  if (columns.input_ids == nullptr) throw user_error("[from_columns] expected a column input_ids, got none");
  if (columns.input_ids->empty()) throw user_error("[input_ids] expected at least one row, got none");
  return columns;
}

void check_size(std::string_view name, size_t size, size_t samples) {
  if (size != samples) {
    throw user_error("[{}] expected {} rows, as input_ids has, got {}", name, samples, size);
  }
}

void check_row_size(std::string_view name, size_t row, const Rows& rows, const Rows& input_ids) {
  if (rows[row].size() != input_ids[row].size()) {
    throw user_error("[{}] expected {} elements in row {}, as input_ids has, got {}", name,
                     input_ids[row].size(), row, rows[row].size());
  }
}

// How many tokens of the row a mask keeps.
size_t kept_tokens(const Columns& columns, size_t row) {
  if (columns.attention_mask == nullptr) return (*columns.input_ids)[row].size();
  const std::vector<int64_t>& mask = (*columns.attention_mask)[row];
  const auto kept = std::find(mask.begin(), mask.end(), 0);
  if (!std::all_of(mask.begin(), kept, [](int64_t m) { return m == 1; }) ||
      !std::all_of(kept, mask.end(), [](int64_t m) { return m == 0; })) {
    throw user_error(
        "[attention_mask] expected ones and then zeros in row {}, got another pattern; pad on the right "
        "(padding_side)",
        row);
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

std::vector<int32_t> token_labels(const Columns& columns, const Rows& rows) {
  std::vector<int32_t> labels;
  for (size_t row = 0; row < rows.size(); ++row) {
    check_row_size("labels", row, rows, *columns.input_ids);
    const size_t kept = kept_tokens(columns, row);
    for (size_t i = 0; i < rows[row].size(); ++i) {
      const int32_t label = to_label(row, rows[row][i]);
      if (i < kept) {
        labels.push_back(label);
      } else if (label != kIgnoredLabel) {
        throw user_error("[labels] expected -100 where attention_mask is 0, got {} in row {}", label, row);
      }
    }
  }
  return labels;
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
    builder.set_token_labels(token_labels(columns, *rows));
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
  const Rows& input_ids = *columns.input_ids;
  if (columns.token_type_ids != nullptr)
    check_size("token_type_ids", columns.token_type_ids->size(), input_ids.size());
  if (columns.attention_mask != nullptr)
    check_size("attention_mask", columns.attention_mask->size(), input_ids.size());

  DatasetBuilder builder;
  std::vector<int32_t> ids;
  std::vector<int32_t> types;
  for (size_t row = 0; row < input_ids.size(); ++row) {
    if (columns.attention_mask != nullptr)
      check_row_size("attention_mask", row, *columns.attention_mask, input_ids);
    const size_t kept = kept_tokens(columns, row);
    ids.clear();
    types.clear();
    for (size_t i = 0; i < kept; ++i) ids.push_back(to_int32("input_ids", row, input_ids[row][i]));
    if (columns.token_type_ids != nullptr) {
      check_row_size("token_type_ids", row, *columns.token_type_ids, input_ids);
      for (size_t i = 0; i < kept; ++i)
        types.push_back(to_int32("token_type_ids", row, (*columns.token_type_ids)[row][i]));
    }
    builder.add(ids, types);
  }
  set_labels(columns, builder);
  return builder.finish();
}

}  // namespace shoehorn
