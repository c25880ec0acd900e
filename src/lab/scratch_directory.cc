#include "lab/scratch_directory.h"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include "base/error.h"

namespace shoehorn {

ScratchDirectory::ScratchDirectory() {
  std::string name = (std::filesystem::temp_directory_path() / "shoehorn-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr)
    throw system_error("[{}] expected to make a directory, got {}; set TMPDIR to another place", name,
                       std::generic_category().message(errno));
  path_ = name;
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace shoehorn
