// Readers of bytes that others made, each under a name: what a fuzzer feeds (libfuzzer.cc) and what the
// committed inputs are replayed through (readers_test.cc). docs/fuzzing.md tells how to run and to add one.
//
// The contract of a reader: an input is either read or refused with a UserError or a SystemError. Anything
// else is a finding: another exception (a failed CHECK included), a sanitizer's report, more than a second,
// more than 512 MiB. Many check a property of what they read as well: written and read again it is the same.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace shoehorn::fuzz {

using Reader = void (*)(std::string_view input);

// All that this program has, by name.
std::map<std::string, Reader>& readers();

// Gives a reader its name: one at the end of each NAME_fuzz.cc.
struct Registration {
  Registration(const char* name, Reader reader) { readers()[name] = reader; }
};

// False where the input was refused. Lets through what is a finding.
bool accepts(Reader reader, std::string_view input);

// A new directory for readers that take a path, removed with this object; under TMPDIR, which is best a file
// system in memory. Files keep their place from input to input and change their bytes.
class InputDirectory {
 public:
  InputDirectory();
  InputDirectory(const InputDirectory&) = delete;
  InputDirectory& operator=(const InputDirectory&) = delete;
  ~InputDirectory();

  const std::filesystem::path& path() const { return path_; }
  // The path of the file, which now has these bytes.
  std::filesystem::path write(std::string_view name, std::string_view bytes) const;

 private:
  std::filesystem::path path_;
};

}  // namespace shoehorn::fuzz
