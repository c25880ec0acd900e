// all_results.json of a `shoehorn train` that has ended.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace shoehorn {

class RunResults {
 public:
  // Of the run whose output is here. UserError, SystemError as read_json.
  explicit RunResults(const std::filesystem::path& output_dir);

  bool has(const char* name) const { return results_.contains(name); }
  // UserError that names file and key where there is no number, or no whole one from 0 on.
  double number(const char* name) const;
  int64_t bytes(const char* name) const;

 private:
  std::filesystem::path file_;
  nlohmann::json results_;
};

}  // namespace shoehorn
