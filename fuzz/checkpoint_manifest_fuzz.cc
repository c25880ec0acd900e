// shoehorn_manifest.json beside the files that it is to list (io/checkpoint_manifest.h).
#include "fuzz/reader.h"
#include "io/checkpoint_directory.h"
#include "io/checkpoint_manifest.h"

namespace shoehorn::fuzz {
namespace {

void read(std::string_view input) {
  static const InputDirectory directory;
  directory.write("trainer_state.json", "{}\n");
  directory.write("model.safetensors", "some bytes");
  directory.write(kManifestName, input);
  manifest_defect(directory.path());
}

const Registration kRegistration("checkpoint_manifest", read);

}  // namespace
}  // namespace shoehorn::fuzz
