#include "state/fp16_checkpoint.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "io/file.h"
#include "io/json_file.h"
#include "io/model_directory.h"

namespace shoehorn {

namespace {

// What says so; empty where nothing does.
std::string bfloat16_sign(const TensorFiles& files) {
  const std::filesystem::path config = files.path() / kConfigFileName;
  if (path_exists(config)) {
    const nlohmann::json json = read_json(config);
    for (const char* key : {"dtype", "torch_dtype"}) {
      const auto found = json.is_object() ? json.find(key) : json.end();
      if (found != json.end() && *found == "bfloat16") return fmt::format("its config.json has {}", key);
    }
  }
  for (const std::string& name : files.names()) {
    if (files.tensor(name).dtype == DType::kBF16) return fmt::format("its tensor '{}' is", name);
  }
  return {};
}

}  // namespace

std::string fp16_overflow_warning(const TensorFiles& files) {
  const std::string sign = bfloat16_sign(files);
  if (sign.empty()) return {};
  return fmt::format(
      "Warning: {} was trained in bfloat16 ({} bfloat16), which reaches 3.4e38; float16 ends at 65504, and "
      "what is larger becomes infinite. --bf16 has the model's own range",
      files.path().string(), sign);
}

}  // namespace shoehorn
