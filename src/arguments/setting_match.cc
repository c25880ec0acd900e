#include "arguments/setting_match.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "arguments/argument_table.h"
#include "base/error.h"

namespace shoehorn {
namespace {

// Two names of one optimizer say the same.
bool says_the_same(const std::string& flag, const ArgumentValue& value, const TrainingArguments& args) {
  if (argument_value(*find_argument(flag), args) == value) return true;
  if (flag != "optim") return false;
  TrainingArguments other = args;
  other.optim = std::get<std::string>(value);
  return optimizer_name(other) == optimizer_name(args);
}

}  // namespace

void SettingMatch::set(const std::string& key, const std::string& flag, const nlohmann::json& value) {
  const ArgumentSpec* spec = find_argument(flag);
  CHECK(spec != nullptr && spec->field.index() != 0, "no argument {}", flag);
  const std::string place = source_ + ": " + key;
  const ArgumentValue wanted = argument_from_json(*spec, value, place);
  check_argument(*spec, wanted, place);
  const auto before = key_of_flag_.find(flag);
  if (is_given_(flag) || before != key_of_flag_.end()) {
    if (says_the_same(flag, wanted, args_)) return;
    const bool is_of_file = before != key_of_flag_.end();
    (is_of_file ? contradictions_ : mismatches_)
        .push_back(fmt::format("{} is {}, but {} is {}", key, argument_to_text(wanted),
                               is_of_file ? before->second : "--" + flag,
                               argument_to_text(argument_value(*spec, args_))));
    return;
  }
  set_argument(*spec, wanted, args_);
  key_of_flag_[flag] = key;
  flags_.push_back(flag);
}

void SettingMatch::add_notice_of(const std::vector<std::string>& without_effect,
                                 std::vector<std::string>& notices) const {
  if (!without_effect.empty())
    notices.push_back(fmt::format("{}: no effect here have {}", source_, fmt::join(without_effect, ", ")));
}

std::vector<std::string> SettingMatch::finish() const {
  std::vector<std::string> wrong;
  if (!mismatches_.empty()) {
    wrong.push_back(fmt::format(
        "expected what the flags say, got other values:\n  {}\nleave the flags out, or give \"auto\" there",
        fmt::join(mismatches_, "\n  ")));
  }
  if (!contradictions_.empty()) {
    wrong.push_back(
        fmt::format("expected settings that go together, got:\n  {}\nchange one, or give \"auto\" there",
                    fmt::join(contradictions_, "\n  ")));
  }
  if (wrong.empty()) return flags_;
  throw user_error("[{}] {}", source_, fmt::join(wrong, "\n"));
}

}  // namespace shoehorn
