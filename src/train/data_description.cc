#include "train/data_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <numeric>

#include "base/format.h"

namespace shoehorn {
namespace {

// A name from a file, for a terminal.
std::string shown_name(const std::string& name) {
  constexpr size_t kMaxBytes = 60;
  return printable(shorten(name, kMaxBytes), 2 * kMaxBytes);
}

std::string shown_columns(const std::vector<std::string>& names) {
  constexpr size_t kMost = 6;
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) shown.push_back(shown_name(names[i]));
  return fmt::format("{}{}", fmt::join(shown, ", "), names.size() > kMost ? ", …" : "");
}

std::string describe_classes(const LabelMap& labels, const std::vector<int64_t>& counts) {
  constexpr size_t kAll = 8;
  constexpr size_t kMostFrequent = 3;
  std::vector<size_t> order(counts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto shown = [&](size_t i) {
    return fmt::format("{} {}", shown_class(labels.names[order[i]]), format_count(counts[order[i]]));
  };
  if (counts.size() > kAll)
    std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t i) { return counts[i]; });
  std::string text = counts.size() > kAll ? fmt::format("{} classes: ", counts.size()) : "classes: ";
  for (size_t i = 0; i < (counts.size() > kAll ? kMostFrequent : counts.size()); ++i)
    text += (i > 0 ? ", " : "") + shown(i);
  return counts.size() > kAll ? text + ", …, " + shown(counts.size() - 1) : text;
}

// Some milliseconds of labels in files.
constexpr int64_t kLabelsBetweenProgress = 8192;

template <typename Read>
void read_labels(const Dataset& samples, const LabelProgress& on_progress, const Read& read) {
  for (int64_t i = 0; i < samples.size(); ++i) {
    read(i);
    const bool is_due = (i + 1) % kLabelsBetweenProgress == 0 || i + 1 == samples.size();
    if (on_progress && is_due) on_progress(i + 1, samples.size());
  }
}

std::string describe_values(const Dataset& samples, const LabelProgress& on_progress) {
  float least = std::numeric_limits<float>::max();
  float most = std::numeric_limits<float>::lowest();
  read_labels(samples, on_progress, [&](int64_t i) {
    for (const float value : samples.value_labels(i)) {
      least = std::min(least, value);
      most = std::max(most, value);
    }
  });
  return fmt::format("values: {:.6g} to {:.6g}", least, most);
}

}  // namespace

std::string shown_class(const std::string& name) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  const auto is_letter = [](char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0 || (c & 0x80) != 0;
  };
  const bool is_clear = std::ranges::any_of(name, is_letter) && !is_space(name.front()) &&
                        !is_space(name.back()) && name.find(',') == std::string::npos;
  return is_clear ? shown_name(name) : fmt::format("\"{}\"", shown_name(name));
}

std::vector<int64_t> class_counts(const Dataset& samples, const LabelMap& labels,
                                  const LabelProgress& on_progress) {
  if (labels.problem == ProblemType::kRegression || samples.label_kind() == LabelKind::kNone) return {};
  std::vector<int64_t> counts(static_cast<size_t>(labels.num_labels()));
  read_labels(samples, on_progress, [&](int64_t i) {
    if (samples.label_kind() == LabelKind::kClass) {
      ++counts[static_cast<size_t>(samples.class_label(i))];
      return;
    }
    const std::vector<float> values = samples.value_labels(i);
    for (size_t label = 0; label < values.size(); ++label) counts[label] += values[label] > 0 ? 1 : 0;
  });
  return counts;
}

std::string describe_columns(const std::vector<std::string>& texts, const std::vector<std::string>& labels) {
  const std::string line = fmt::format("text: {}", shown_columns(texts));
  if (labels.empty()) return line;
  return fmt::format("{}; label{}: {}", line, labels.size() == 1 ? "" : "s", shown_columns(labels));
}

std::string describe_columns(const LoadedDataset& data, const Dataset& samples,
                             const std::vector<int64_t>& counts, const LabelProgress& on_progress) {
  if (data.label_columns.empty() || samples.size() == 0)
    return describe_columns(data.text_columns, {}) + "\n";
  const std::string line = describe_columns(data.text_columns, data.label_columns);
  return line + "; " +
         (counts.empty() ? describe_values(samples, on_progress) : describe_classes(data.labels, counts)) +
         "\n";
}

std::string describe_uneven_split(const LabelMap& labels, const std::vector<int64_t>& trained,
                                  const std::vector<int64_t>& evaluated) {
  if (trained.empty() || evaluated.empty()) return {};
  for (size_t i = 0; i < trained.size(); ++i) {
    if ((trained[i] > 0) == (evaluated[i] > 0)) continue;
    return fmt::format(
        "class '{}' has {} sample{} to train on and {} to evaluate on, since the file is split behind its beginning; if "
        "it is sorted, shuffle its rows, or give a --validation_file\n",
        shown_name(labels.names[i]), format_count(trained[i]), trained[i] == 1 ? "" : "s",
        format_count(evaluated[i]));
  }
  return {};
}

}  // namespace shoehorn
