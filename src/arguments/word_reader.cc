#include "arguments/word_reader.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace shoehorn {

namespace {

bool is_flag_word(const std::string& word) {
  return word.size() > 2 && word.starts_with("--");
}

std::string_view flag_name(const std::string& word) {
  return std::string_view(word).substr(2, word.find('=') - 2);
}

bool may_stand_bare(const ArgumentSpec& spec) {
  return spec.kind == ArgumentKind::kFlag || !spec.true_text.empty();
}

// --no_bf16: the row of bf16. Null if `name` is nothing of that form.
const ArgumentSpec* find_negated(const WordReader::Find& find, std::string_view name) {
  if (!name.starts_with("no_") && !name.starts_with("no-")) return nullptr;
  const ArgumentSpec* spec = find(name.substr(3));
  return spec != nullptr && spec->kind == ArgumentKind::kFlag ? spec : nullptr;
}

}  // namespace

WordReader::WordReader(const std::vector<std::string>& words, Find find, Suggest suggest)
    : words_(words), find_(std::move(find)), suggest_(std::move(suggest)) {}

bool WordReader::at_flag() const {
  return !at_end() && is_flag_word(words_[at_]);
}

bool WordReader::at_flag_of(const Find& find) const {
  if (!at_flag()) return false;
  const std::string_view name = flag_name(words_[at_]);
  return find(name) != nullptr || find_negated(find, name) != nullptr;
}

GivenFlag WordReader::read_flag() {
  const std::string& word = take_word();
  if (!is_flag_word(word)) return read_bare_file(word);
  const size_t equals = word.find('=');
  const std::string source = word.substr(0, equals);
  const std::string_view name = flag_name(word);
  std::optional<std::string> value;
  if (equals != std::string::npos) value = word.substr(equals + 1);

  if (const ArgumentSpec* spec = find_(name)) {
    return {spec, source, value ? *value : read_value(*spec, source)};
  }
  if (const ArgumentSpec* spec = find_negated(find_, name)) {
    if (value)
      throw user_error("[{}] expected no value, got '{}'; give --{}={}", source, *value, spec->name, *value);
    return {spec, source, "false"};
  }
  throw user_error("[{}] expected a known flag, got '{}'{}", source, name, suggest_(name));
}

GivenFlag WordReader::read_bare_file(const std::string& word) const {
  const ArgumentSpec* config = find_("config");
  if (config == nullptr)
    throw user_error("[command line] expected --name or --name value, got '{}'{}", word, suggest_(word));
  if (word.ends_with(".json")) return {config, "configuration file", word};
  // Any other flag would have taken the word for its value.
  const std::string before = at_ >= 2 ? words_[at_ - 2] : "";
  if (is_flag_word(before) && before.find('=') == std::string::npos && find_(flag_name(before)) != nullptr)
    throw user_error("[{}] expected true, false or nothing behind it, got '{}'", before, word);
  throw user_error("[command line] expected --name, --name value or a configuration file.json, got '{}'{}",
                   word, suggest_(word));
}

bool WordReader::has_value_word() const {
  return !at_end() && !at_flag();
}

std::string WordReader::read_value(const ArgumentSpec& spec, const std::string& source) {
  if (spec.kind == ArgumentKind::kFlag) {
    return has_value_word() && parse_boolean(words_[at_]) ? words_[at_++] : "true";
  }
  if (!has_value_word()) {
    if (may_stand_bare(spec)) return "true";
    throw user_error("[{}] expected a value, got {}", source, at_end() ? "nothing" : words_[at_]);
  }
  std::string text = words_[at_++];
  while (spec.kind == ArgumentKind::kList && has_value_word()) text += "," + words_[at_++];
  return text;
}

}  // namespace shoehorn
