// shoehorn_manifest.json beside the files that it is to list (io/manifest.h).
#include "fuzz/reader.h"
#include "io/manifest.h"

namespace shoehorn::fuzz {
namespace {

void fuzz_checkpoint_manifest(std::string_view input) {
  static const InputDirectory directory;
  directory.write("trainer_state.json", "{}\n");
  directory.write("model.safetensors", "some bytes");
  directory.write(kManifestName, input);
  verify_manifest(directory.path(), VerifiedFiles::kAll);
}

const Registration kCheckpointManifestReader("checkpoint_manifest", fuzz_checkpoint_manifest);

}  // namespace
}  // namespace shoehorn::fuzz
