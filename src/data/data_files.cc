#include "data/data_files.h"

#include <glob.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "io/input_stream.h"

namespace shoehorn {

namespace fs = std::filesystem;

namespace {

bool exists(const fs::path& path) {
  std::error_code unknown;
  return fs::exists(path, unknown);
}

void check_no_directory(std::string_view flag, const fs::path& path) {
  std::error_code unknown;
  if (!fs::is_directory(path, unknown)) return;
  throw user_error("[{}] expected a file, got the directory '{}'; name its files, as in '{}'", flag,
                   path.string(), (path / "*.csv").string());
}

std::vector<fs::path> matches_of(std::string_view flag, const std::string& pattern) {
  glob_t found = {};
  const int result = glob(pattern.c_str(), GLOB_MARK, nullptr, &found);
  std::vector<fs::path> paths;
  for (size_t i = 0; result == 0 && i < found.gl_pathc; ++i) {
    const std::string_view path = found.gl_pathv[i];
    if (!path.ends_with('/')) paths.emplace_back(path);
  }
  globfree(&found);
  if (paths.empty())
    throw user_error("[{}] expected files of the pattern '{}', got none; check the path", flag, pattern);
  std::ranges::sort(paths, {}, &fs::path::native);  // glob() sorts as the locale has it
  return paths;
}

}  // namespace

DataFiles::DataFiles(std::vector<fs::path> paths) : paths_(std::move(paths)) {
  CHECK(!paths_.empty(), "no file");
}

std::string DataFiles::name() const {
  constexpr size_t kShown = 3;
  const size_t shown = paths_.size() <= kShown ? paths_.size() : kShown - 1;
  std::string name = input_name(paths_[0]);
  for (size_t i = 1; i < shown; ++i) name += ", " + input_name(paths_[i]);
  if (shown < paths_.size()) name += fmt::format(" and {} more", paths_.size() - shown);
  return name;
}

DataFiles find_data_files(std::string_view flag, const std::string& names) {
  std::vector<fs::path> paths;
  for (const DataFiles& files : find_data_file_sets(flag, names))
    std::ranges::copy(files.paths(), std::back_inserter(paths));
  return DataFiles(std::move(paths));
}

std::vector<DataFiles> find_data_file_sets(std::string_view flag, const std::string& names) {
  if (exists(names)) {
    check_no_directory(flag, names);
    return {fs::path(names)};
  }
  std::vector<DataFiles> sets;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    begin = end + 1;
    if (name.empty())
      throw user_error("[{}] expected files with one comma between two, got '{}'", flag, names);
    check_no_directory(flag, name);
    if (name.find_first_of("*?[") == std::string::npos || exists(name)) {
      sets.emplace_back(fs::path(name));
    } else {
      sets.emplace_back(matches_of(flag, name));
    }
  }
  std::set<fs::path> seen;
  for (const DataFiles& files : sets) {
    for (const fs::path& path : files.paths()) {
      if (!seen.insert(path).second)
        throw user_error("[{}] expected every file once, got '{}' twice", flag, path.string());
    }
  }
  return sets;
}

}  // namespace shoehorn
