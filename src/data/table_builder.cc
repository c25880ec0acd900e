#include "data/table_builder.h"

#include <numeric>
#include <unordered_map>

#include "base/error.h"

namespace shoehorn {

TableBuilder::TableBuilder(std::string source, const std::function<void(const Table& so_far)>& on_row)
    : on_row_(on_row ? &on_row : nullptr) {
  table_.source = std::move(source);
}

TableBuilder::TableBuilder(std::string source, PieceLimits limits,
                           const std::function<void(const Table& piece)>& take)
    : limits_(limits), take_(&take) {
  table_.source = std::move(source);
}

void TableBuilder::begin_file(const std::string& name) {
  if (table_.files.empty()) first_file_ = name;
  file_ = name;
  file_rows_ = 0;
  table_.files.push_back({name, table_.rows()});
}

void TableBuilder::set_columns(const std::vector<std::string>& names, int64_t line) {
  if (!table_.columns.empty()) {
    order_ = places_of(names, line);
    return;
  }
  table_.column_names = names;
  order_.resize(names.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  places_of(names, line);
  table_.columns.resize(names.size());
}

std::vector<size_t> TableBuilder::places_of(const std::vector<std::string>& names, int64_t line) const {
  const auto refuse = [&](const std::string& difference) {
    throw user_error(
        "[{}:{}] expected the columns of {} ({}), got {}; files that are read together have the same", file_,
        line, first_file_, fmt::join(table_.column_names, ", "), difference);
  };
  std::unordered_map<std::string_view, size_t> known;
  for (size_t i = 0; i < table_.column_names.size(); ++i) known.emplace(table_.column_names[i], i);
  std::vector<bool> is_named(known.size());
  std::vector<size_t> places;
  for (const std::string& name : names) {
    const auto place = known.find(name);
    if (place == known.end()) refuse(fmt::format("another one, '{}'", name));
    if (is_named[place->second]) {
      throw user_error("[{}:{}] expected every column once, got '{}' twice; rename one of them", file_, line,
                       name);
    }
    is_named[place->second] = true;
    places.push_back(place->second);
  }
  for (size_t i = 0; i < is_named.size(); ++i) {
    if (!is_named[i]) refuse(fmt::format("none called '{}'", table_.column_names[i]));
  }
  return places;
}

Table TableBuilder::finish() {
  if (take_ != nullptr && table_.rows() > 0) hand_on();
  return std::move(table_);
}

void TableBuilder::hand_on() {
  (*take_)(table_);
  table_.clear_rows();
}

}  // namespace shoehorn
