#include "data/data_set_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "io/json_file.h"
#include "io/manifest.h"

namespace shoehorn {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

const json& member(const json& object, const char* name, const fs::path& path) {
  if (!object.is_object()) throw DamagedFile(path, "expected an object, got " + object.dump());
  const auto found = object.find(name);
  if (found == object.end()) throw DamagedFile(path, fmt::format("expected '{}', got none", name));
  return *found;
}

std::string text_of(const json& object, const char* name, const fs::path& path) {
  const json& value = member(object, name, path);
  if (!value.is_string())
    throw DamagedFile(path, fmt::format("expected a text as '{}', got {}", name, value.dump()));
  return value.get<std::string>();
}

std::vector<std::string> texts_of(const json& object, const char* name, const fs::path& path) {
  const json& value = member(object, name, path);
  const bool are_texts =
      value.is_array() && std::ranges::all_of(value, [](const json& one) { return one.is_string(); });
  if (!are_texts)
    throw DamagedFile(path, fmt::format("expected a list of texts as '{}', got {}", name, value.dump()));
  return value.get<std::vector<std::string>>();
}

int64_t count_of(const json& object, const char* name, const fs::path& path) {
  const json& value = member(object, name, path);
  const std::optional<int64_t> count = whole_number(value);
  if (!count || *count < 0)
    throw DamagedFile(path, fmt::format("expected a number as '{}', got {}", name, value.dump()));
  return *count;
}

bool flag_of(const json& object, const char* name, const fs::path& path) {
  const json& value = member(object, name, path);
  if (!value.is_boolean())
    throw DamagedFile(path, fmt::format("expected true or false as '{}', got {}", name, value.dump()));
  return value.get<bool>();
}

LabelMap labels_from(const json& object, const fs::path& path) {
  const std::string problem = text_of(object, "problem_type", path);
  const std::optional<ProblemType> known = find_problem_type(problem);
  if (!known) throw DamagedFile(path, fmt::format("expected a known problem_type, got '{}'", problem));
  return {.problem = *known,
          .names = texts_of(object, "names", path),
          .takes_ids = flag_of(object, "takes_ids", path)};
}

}  // namespace

json to_json(const LabelMap& labels) {
  return {{"problem_type", problem_type_name(labels.problem)},
          {"names", labels.names},
          {"takes_ids", labels.takes_ids}};
}

json to_json(const LoadedDataset& loaded) {
  return {{"labels", to_json(loaded.labels)},    {"labels_are_ids", loaded.labels_are_ids},
          {"text_columns", loaded.text_columns}, {"label_columns", loaded.label_columns},
          {"notices", loaded.notices},           {"invalid_utf8", loaded.invalid_utf8},
          {"empty_texts", loaded.empty_texts}};
}

json to_json(const LoadedTexts& loaded) {
  return {{"text_column", loaded.text_column},
          {"invalid_utf8", loaded.invalid_utf8},
          {"empty_texts", loaded.empty_texts}};
}

DataSetIdentity data_set_identity_from_json(const json& file, const fs::path& path) {
  return {.key = text_of(file, "key", path),
          .content_hash = text_of(file, "content_hash", path),
          .shards = texts_of(file, "shards", path)};
}

LoadedDataset loaded_dataset_from_json(const json& file, const fs::path& path) {
  LoadedDataset loaded = {.dataset = {},
                          .labels = labels_from(member(file, "labels", path), path),
                          .text_columns = texts_of(file, "text_columns", path),
                          .label_columns = texts_of(file, "label_columns", path),
                          .notices = texts_of(file, "notices", path),
                          .invalid_utf8 = count_of(file, "invalid_utf8", path),
                          .empty_texts = count_of(file, "empty_texts", path),
                          .labels_are_ids = flag_of(file, "labels_are_ids", path)};
  if (loaded.labels.names.empty() && !loaded.label_columns.empty())
    throw DamagedFile(path, "expected names of labels, got none");
  return loaded;
}

LoadedTexts loaded_texts_from_json(const json& file, const fs::path& path) {
  return {.texts = {},
          .text_column = text_of(file, "text_column", path),
          .invalid_utf8 = count_of(file, "invalid_utf8", path),
          .empty_texts = count_of(file, "empty_texts", path)};
}

}  // namespace shoehorn
