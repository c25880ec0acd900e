// adapter_model.safetensors: the names of its tensors say what is adapted (state/adapter_config.h).
#include "fuzz/adapter_fixture.h"

namespace shoehorn::fuzz {
namespace {

void fuzz_adapter_weights(std::string_view input) {
  static const InputDirectory directory;
  static const bool has_config = (write_adapter(directory), true);
  directory.write(kAdapterWeightsName, input);
  if (has_config) read_adapter_config(directory.path());
}

const Registration kAdapterWeightsReader("adapter_weights", fuzz_adapter_weights);

}  // namespace
}  // namespace shoehorn::fuzz
