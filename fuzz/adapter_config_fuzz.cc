// adapter_config.json beside adapters' weights (state/adapter_config.h).
#include "fuzz/adapter_fixture.h"

namespace shoehorn::fuzz {
namespace {

void fuzz_adapter_config(std::string_view input) {
  static const InputDirectory directory;
  static const bool has_weights = (write_adapter(directory), true);
  directory.write(kAdapterConfigName, input);
  const AdapterConfig config = read_adapter_config(directory.path());
  if (has_weights) base_model_directory(directory.path(), config);
}

const Registration kAdapterConfigReader("adapter_config", fuzz_adapter_config);

}  // namespace
}  // namespace shoehorn::fuzz
