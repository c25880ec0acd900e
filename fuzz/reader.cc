#include "fuzz/reader.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "io/file.h"

namespace shoehorn::fuzz {

std::map<std::string, Reader>& readers() {
  static std::map<std::string, Reader> all;
  return all;
}

bool accepts(Reader reader, std::string_view input) {
  try {
    reader(input);
    return true;
  } catch (const UserError&) {
    return false;
  } catch (const SystemError&) {
    return false;
  }
}

InputDirectory::InputDirectory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "shoehorn-fuzz-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw_system_error(pattern, "make this directory", errno);
  path_ = pattern;
}

InputDirectory::~InputDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path InputDirectory::write(std::string_view name, std::string_view bytes) const {
  std::filesystem::path path = path_ / name;
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  // Not a SystemError: that would pass for a refused input.
  CHECK(
      file.is_open() && ::write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
      "'{}' cannot be written", path.string());
  return path;
}

}  // namespace shoehorn::fuzz
