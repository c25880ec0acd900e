#include <fmt/format.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/man_page.h"

namespace shoehorn {

CommandHelp help_of_man() {
  return {.name = "man",
          .introduction = R"(The manual page. `make install` puts it where man finds it. To read it without:

  shoehorn man > shoehorn.1 && man ./shoehorn.1
)"};
}

int run_man(const std::vector<std::string>& words) {
  if (!words.empty()) throw user_error("[man] expected nothing behind it, got '{}'", words[0]);
  fmt::print("{}", man_page());
  return 0;
}

}  // namespace shoehorn
