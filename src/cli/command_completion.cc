#include <fmt/format.h>

#include "base/error.h"
#include "base/format.h"
#include "cli/commands.h"
#include "cli/completion.h"

namespace shoehorn {

CommandHelp help_of_completion() {
  return {.name = "completion",
          .introduction =
              R"(What completes command lines of shoehorn in a shell: commands, flags, their values, files.
`make install` puts it where the shells look. For this shell alone:

  source <(shoehorn completion bash)
  source <(shoehorn completion zsh)
  shoehorn completion fish | source
)"};
}

int run_completion(const std::vector<std::string>& words) {
  const std::string shell = words.size() == 1 ? words[0] : "";
  if (shell == "bash") {
    fmt::print("{}", bash_completion());
  } else if (shell == "zsh") {
    fmt::print("{}", zsh_completion());
  } else if (shell == "fish") {
    fmt::print("{}", fish_completion());
  } else {
    throw user_error("[completion] expected bash, zsh or fish, got {}{}",
                     words.empty() ? "nothing" : fmt::format("'{}'", fmt::join(words, " ")),
                     did_you_mean(nearest_name(shell, {"bash", "zsh", "fish"})));
  }
  return 0;
}

}  // namespace shoehorn
