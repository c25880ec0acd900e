#include "cli/notices.h"

#include <fmt/format.h>

namespace shoehorn {

std::function<void(const std::string& line)> notices_to(std::FILE* text, const TrainingArguments& args) {
  if (args.log_level == "error" || args.log_level == "critical") return {};
  return [text](const std::string& line) { fmt::print(text, "{}\n", line); };
}

}  // namespace shoehorn
