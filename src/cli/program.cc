#include <cstdio>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "base/error.h"
#include "base/format.h"
#include "cli/commands.h"

namespace shoehorn {

namespace {

constexpr const char* kUsage = R"(shoehorn: fit a bigger model, train it faster

  shoehorn train        fine-tune a model of a Hugging Face directory
  shoehorn eval         loss, accuracy and F1 of a model on a labelled file
  shoehorn predict      label and scores for each text of a file
  shoehorn plan         what training would take, to the byte, without running it
  shoehorn bench step   speed and memory of the training step on random tokens
  shoehorn env          what was detected and measured about this machine

shoehorn COMMAND --help lists the flags of a command.
)";

int dispatch(std::vector<std::string> words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    fmt::print("{}", kUsage);
    return words.empty() ? 2 : 0;
  }
  static const std::map<std::string, std::function<int(const std::vector<std::string>&)>> commands = {
      {"train", run_train}, {"eval", run_eval},        {"predict", run_predict},
      {"plan", run_plan},   {"bench", run_bench_step}, {"env", run_env}};
  const auto command = commands.find(words[0]);
  if (command == commands.end()) {
    std::vector<std::string> names;
    for (const auto& [name, run] : commands) names.push_back(name);
    const std::string nearest = nearest_name(words[0], names);
    throw user_error("[shoehorn] expected one of the commands {}, got '{}'{}", fmt::join(names, ", "),
                     words[0], nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest));
  }
  words.erase(words.begin());
  if (command->first == "bench") {
    if (words.empty() || words[0] != "step") {
      throw user_error("[bench] expected 'step', got '{}'", words.empty() ? "nothing" : words[0]);
    }
    words.erase(words.begin());
  }
  return command->second(words);
}

}  // namespace

int run_program(const std::vector<std::string>& words) {
  try {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
      throw user_error(
          "[processor] expected one with AVX2 and FMA, got one without; the kernels have no slower form");
    }
    return dispatch(words);
  } catch (const UserError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}

}  // namespace shoehorn
