// model.safetensors.index.json beside two shards (io/safetensors.h).
#include "base/error.h"
#include "fuzz/reader.h"
#include "io/model_directory.h"
#include "io/safetensors.h"

namespace shoehorn::fuzz {
namespace {

// Two bytes of data, a tensor each.
std::string shard(const std::string& first, const std::string& second) {
  return format_safetensors_header({{first, DType::kU8, {1}}, {second, DType::kU8, {1}}}, {}) + "xy";
}

void fuzz_safetensors_index(std::string_view input) {
  static const InputDirectory directory;
  static const bool has_shards = [] {
    directory.write("model-00001-of-00002.safetensors", shard("a", "b"));
    directory.write("model-00002-of-00002.safetensors", shard("c", "d"));
    return true;
  }();
  directory.write(kSafetensorsIndexName, input);
  const SafetensorsModel model = SafetensorsModel::open(directory.path());
  CHECK(has_shards && model.names().size() == 2 * model.files().size(), "{} tensors of {} shards",
        model.names().size(), model.files().size());
  for (const std::string& name : model.names()) {
    std::byte value{};
    model.read_into(name, {&value, 1});
  }
}

const Registration kSafetensorsIndexReader("safetensors_index", fuzz_safetensors_index);

}  // namespace
}  // namespace shoehorn::fuzz
