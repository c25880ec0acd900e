#include "train/log_lines.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "io/json_file.h"

namespace shoehorn {

std::string lines_up_to_step(std::string_view text, int64_t step, const std::string& source) {
  std::string kept;
  int64_t number = 1;
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n'), ++number) {
    const std::string_view line = text.substr(0, end);
    const std::string what = fmt::format("{}:{}", source, number);
    const nlohmann::json entry = parse_json(line, what);
    const bool has_step = entry.is_object() && entry.contains("step");
    const std::optional<int64_t> its_step = has_step ? whole_number(entry["step"]) : std::nullopt;
    if (!its_step)
      throw user_error("[{}] expected an object with a step, got {}; move the file away", what, line);
    if (*its_step <= step) kept.append(text.substr(0, end + 1));
    text.remove_prefix(end + 1);
  }
  return kept;
}

}  // namespace shoehorn
