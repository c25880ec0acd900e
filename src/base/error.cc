#include "base/error.h"

#include <cstring>

namespace shoehorn {

void fail_check(const char* file, int line, const char* condition, const std::string& message) {
  const char* source = std::strstr(file, "src/");
  throw InternalError(fmt::format("[internal, {}:{}] expected {}: {}; this is a bug of shoehorn",
                                  source != nullptr ? source : file, line, condition, message));
}

}  // namespace shoehorn
