// Settings of a configuration file that become arguments, each compared with the flag that says the same.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "arguments/neighbour_configs.h"

namespace shoehorn {

class SettingMatch {
 public:
  // `source` names the file in errors. All three must outlive this object.
  SettingMatch(const std::string& source, TrainingArguments& args, const IsGiven& is_given)
      : source_(source), args_(args), is_given_(is_given) {}

  // The file's `key` says that `flag` (the name of a row) is `value`: it becomes so, or is a mismatch. UserError
  // "[`source`: key] …" if the flag takes no such value.
  void set(const std::string& key, const std::string& flag, const nlohmann::json& value);

  bool is_given(std::string_view flag) const { return is_given_(flag); }
  void add_mismatch_with_flag(std::string line) { mismatches_.push_back(std::move(line)); }
  // Between settings of the file.
  void add_contradiction(std::string line) { contradictions_.push_back(std::move(line)); }

  // Appends a notice of the file's keys that have no effect here, if there are any.
  void add_notice_of(const std::vector<std::string>& without_effect, std::vector<std::string>& notices) const;

  // UserError that names every mismatch and contradiction, if there is one. Else the flags that were set.
  std::vector<std::string> finish() const;

 private:
  const std::string& source_;
  TrainingArguments& args_;
  const IsGiven& is_given_;
  std::map<std::string, std::string> key_of_flag_;
  std::vector<std::string> flags_;
  std::vector<std::string> mismatches_;
  std::vector<std::string> contradictions_;
};

}  // namespace shoehorn
