// The files that a flag names: one, several with commas between them, or patterns (`'data/*.csv'`), which are those of a
// shell: * ? [a-z]. They are read one behind the other, as if they were one file.
#pragma once

#include <concepts>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shoehorn {

class DataFiles {
 public:
  // One file, whatever its name holds. Not `explicit`: what reads several files is called with one, most of the time.
  template <typename Path>
    requires std::convertible_to<Path, std::filesystem::path>
  DataFiles(Path&& path) : paths_{std::filesystem::path(std::forward<Path>(path))} {}
  // CHECKs that there is one.
  explicit DataFiles(std::vector<std::filesystem::path> paths);

  const std::vector<std::filesystem::path>& paths() const& { return paths_; }
  std::vector<std::filesystem::path> paths() && { return std::move(paths_); }
  // For messages: "a.csv", "a.csv, b.csv", or of many "a.csv, b.csv and 7 more".
  std::string name() const;

 private:
  std::vector<std::filesystem::path> paths_;
};

// The files of a flag's value. What a pattern finds comes in the order of its bytes, without directories and hidden
// files; a file whose name has commas or the characters of patterns is taken as it is, where it is named alone. Nothing
// is opened. UserError naming the flag: an empty name, a pattern that finds nothing, a directory, a file that comes twice.
DataFiles find_data_files(std::string_view flag, const std::string& names);

// The same, but the files of each name that stands between commas on their own: what a pattern finds is one set.
std::vector<DataFiles> find_data_file_sets(std::string_view flag, const std::string& names);

}  // namespace shoehorn
