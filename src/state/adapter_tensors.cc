#include "state/adapter_tensors.h"

#include "base/error.h"
#include "io/safetensors.h"

namespace shoehorn {

std::vector<std::string> adapter_tensor_names(const std::filesystem::path& directory) {
  const SafetensorsFile file = SafetensorsFile::open(directory / kAdapterWeightsName);
  std::vector<std::string> names;
  for (const TensorEntry& entry : file.tensors()) {
    if (!entry.name.starts_with(kAdapterTensorPrefix)) {
      throw user_error("[{}: {}] expected a name that begins with '{}', as PEFT writes it, got another",
                       file.path().string(), entry.name, kAdapterTensorPrefix);
    }
    names.push_back(entry.name.substr(kAdapterTensorPrefix.size()));
  }
  return names;
}

}  // namespace shoehorn
