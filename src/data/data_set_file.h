// data_set.json of a tokenized data set (data/dataset_cache.h): what it says of the samples beside it, read and written.
//
//   {"key": …, "content_hash": …, "shards": […], "version": …, "source": …, "samples": …, "tokens": …}   of every data set
//   "labels", "labels_are_ids", "text_columns", "label_columns", "notices", "invalid_utf8", "empty_texts"  of load_dataset
//   "text_column", "invalid_utf8", "empty_texts"                                                           of load_texts
//
// Functions are thread-safe and pure. DamagedFile naming `path`: a member that is absent or of another type, a problem
// type that is unknown, labels without names. Other members are ignored.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/load_dataset.h"
#include "data/texts.h"

namespace shoehorn {

inline constexpr const char* kDataSetFile = "data_set.json";

struct DataSetIdentity {
  std::string key = {};
  std::string content_hash = {};
  std::vector<std::string> shards = {};  // names of the files of tokens, in order
};

nlohmann::json to_json(const LabelMap& labels);

// All but the samples and where they are read from.
nlohmann::json to_json(const LoadedDataset& loaded);
nlohmann::json to_json(const LoadedTexts& loaded);

DataSetIdentity data_set_identity_from_json(const nlohmann::json& file, const std::filesystem::path& path);
LoadedDataset loaded_dataset_from_json(const nlohmann::json& file, const std::filesystem::path& path);
LoadedTexts loaded_texts_from_json(const nlohmann::json& file, const std::filesystem::path& path);

}  // namespace shoehorn
