// data_set.json of a tokenized data set (data/data_set_file.h): what is written of it reads back the same.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/data_set_file.h"
#include "fuzz/reader.h"
#include "io/json_file.h"

namespace shoehorn::fuzz {
namespace {

constexpr const char* kName = "data_set.json";

bool is_of_texts(const nlohmann::json& file) {
  return file.is_object() && file.contains("text_column");
}

// Members that the reader ignores are left out.
std::string written(const nlohmann::json& file) {
  const DataSetIdentity identity = data_set_identity_from_json(file, kName);
  nlohmann::json what = is_of_texts(file) ? to_json(loaded_texts_from_json(file, kName))
                                          : to_json(loaded_dataset_from_json(file, kName));
  what.update({{"key", identity.key}, {"content_hash", identity.content_hash}, {"shards", identity.shards}});
  return format_json(what);
}

void fuzz_data_set(std::string_view input) {
  const std::string text = written(parse_json(input, kName));
  CHECK(written(parse_json(text, kName)) == text, "another data set");
}

const Registration kDataSetReader("data_set", fuzz_data_set);

}  // namespace
}  // namespace shoehorn::fuzz
