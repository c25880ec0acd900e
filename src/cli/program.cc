#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "base/error.h"
#include "base/format.h"
#include "base/stop_request.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/terminal_lines.h"
#include "lab/error_report.h"

namespace shoehorn {

namespace {

constexpr const char* kUsage = R"(shoehorn: fit a bigger model, train it faster

  shoehorn train         fine-tune a model of a Hugging Face directory
  shoehorn eval          loss, accuracy and F1 of a model on a labelled file
  shoehorn predict       label and scores for each text of a file
  shoehorn generate      texts that a language model writes
  shoehorn plan          what training would take, to the byte, without running it
  shoehorn anatomy       where the memory and the time of a training step go
  shoehorn bench step    speed and memory of the training step on random tokens
  shoehorn bench batch   the same by batch size, and which is best
  shoehorn bench ladder  the settings of the efficient-training guides, one by one; also against Hugging Face
  shoehorn bench quality one task trained to its end under each technique: accuracy, time and memory
  shoehorn compare       runs beside each other: losses, metrics, memory, time, arguments that differ
  shoehorn tokenizer     texts to token ids and back; trains tokenizers
  shoehorn env           what was detected and measured about this machine

shoehorn COMMAND --help lists the flags of a command; shoehorn --version says which version this is.
)";

constexpr const char* kBenchUsage = R"(Measurements on this machine, on random tokens or on a task of yours.

  shoehorn bench step    speed and memory of the training step with any flags of train
  shoehorn bench batch   the same by batch size, which is best, and which sizes the hardware likes
  shoehorn bench ladder  the settings of the efficient-training guides, one by one; also against Hugging Face
  shoehorn bench quality one task trained to its end under each technique: accuracy, time and memory

shoehorn bench COMMAND --help lists the flags of a command.
)";

using CommandMap = std::map<std::string, std::function<int(const std::vector<std::string>&)>>;

// The command that the first word names, run with the words after it. `what` names the choice in errors.
int dispatch_to(const CommandMap& commands, std::vector<std::string> words, const char* what) {
  const std::string name = words.empty() ? "" : words[0];
  const auto command = commands.find(name);
  if (command == commands.end()) {
    std::vector<std::string> names;
    for (const auto& [known, run] : commands) names.push_back(known);
    const std::string nearest = nearest_name(name, names);
    throw user_error("[{}] expected one of the commands {}, got '{}'{}", what, fmt::join(names, ", "), name,
                     nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest));
  }
  words.erase(words.begin());
  return command->second(words);
}

bool asks_for_help(const std::string& word) {
  return word == "--help" || word == "-h" || word == "help";
}

int run_bench(const std::vector<std::string>& words) {
  if (!words.empty() && asks_for_help(words[0])) {
    fmt::print("{}", kBenchUsage);
    return 0;
  }
  static const CommandMap commands = {{"batch", run_bench_batch},
                                      {"ladder", run_bench_ladder},
                                      {"quality", run_bench_quality},
                                      {"step", run_bench_step}};
  return dispatch_to(commands, words, "bench");
}

int dispatch(const std::vector<std::string>& words) {
  if (words.empty() || asks_for_help(words[0])) {
    fmt::print("{}", kUsage);
    return words.empty() ? 2 : 0;
  }
  if (words[0] == "--version") {
    fmt::print("shoehorn {}\n", SHOEHORN_VERSION);
    return 0;
  }
  static const CommandMap commands = {{"train", run_train},         {"eval", run_eval},
                                      {"predict", run_predict},     {"plan", run_plan},
                                      {"generate", run_generate},   {"anatomy", run_anatomy},
                                      {"bench", run_bench},         {"compare", run_compare},
                                      {"tokenizer", run_tokenizer}, {"env", run_env}};
  return dispatch_to(commands, words, "shoehorn");
}

// What a full disk or a closed pipe keeps from being written shows only when the buffer is emptied.
void flush_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw system_error("[standard output] expected to write the whole result, got {}",
                     errno == 0 ? "a write that failed" : std::strerror(errno));
}

// Files' names and texts go into JSON, which has no other bytes; better refused here than when they are
// written.
void check_words(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (is_valid_utf8(word)) continue;
    throw user_error("[command line] expected UTF-8, got '{}'; rename the file that it names",
                     replace_invalid_utf8(word));
  }
}

}  // namespace

int run_program(const std::vector<std::string>& words) {
  try {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
      throw user_error(
          "[processor] expected one with AVX2 and FMA, got one without; the kernels have no slower form");
    }
    check_words(words);
    const int exit_code = dispatch(words);
    flush_output();
    return exit_code;
  } catch (const Stopped& stop) {
    leave_closed_terminal();
    fmt::print(stderr, "{}\n", stop.what());
    return exit_code_of_stop(stop.signal());
  } catch (const std::exception& error) {
    const ErrorReport report = report_of(error);
    fmt::print(stderr, "{}", format_error(report));
    return exit_code_of(report.kind);
  }
}

}  // namespace shoehorn
