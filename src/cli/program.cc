#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/stop_request.h"
#include "base/utf8.h"
#include "cli/command_list.h"
#include "cli/commands.h"
#include "cli/output_lines.h"
#include "cli/program_help.h"
#include "cli/rank_of_process.h"
#include "cli/unknown_command.h"
#include "cli/version.h"
#include "io/json_file.h"
#include "lab/error_report.h"

namespace shoehorn {

namespace {

bool asks_for_help(const std::string& word) {
  return word == "--help" || word == "-h" || word == "help";
}

bool asks_for_version(const std::string& word) {
  return word == "--version" || word == "-V" || word == "-v" || word == "version";
}

// Everything else needs the kernels.
void check_processor() {
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return;
  throw user_error(
      "[processor] expected one with AVX2 and FMA, got one without; the kernels have no slower form");
}

// `shoehorn --version [--json]`.
void print_version(const std::vector<std::string>& words) {
  if (words.empty()) {
    fmt::print("{}", format_version());
  } else if (words == std::vector<std::string>{"--json"}) {
    fmt::print("{}", format_json(version_json(), {.sort_keys = false}));
  } else {
    throw user_error("[--version] expected --json or nothing behind it, got '{}'", fmt::join(words, " "));
  }
}

int dispatch(const std::vector<std::string>& words) {
  if (words.empty()) {
    fmt::print("{}", program_usage());
    return 2;
  }
  if (asks_for_help(words[0])) {
    fmt::print("{}", format_help_command({words.begin() + 1, words.end()}));
    return 0;
  }
  if (asks_for_version(words[0])) {
    print_version({words.begin() + 1, words.end()});
    return 0;
  }
  const auto [entry, rest] = find_command(words);
  if (entry == nullptr) {
    if (words.size() == 1 || !asks_for_help(words[1]) || commands_in_group(words[0]).empty())
      throw_unknown_command(words);
    fmt::print("{}", group_usage(words[0]));
    return 0;
  }
  if (const std::optional<std::string> word = help_word_of(rest)) {
    fmt::print("{}", format_help(entry->help(), *word, help_style()));
    return 0;
  }
  if (rest == std::vector<std::string>{"--version"}) {
    print_version({});
    return 0;
  }
  check_processor();
  check_runs_on_ranks(entry->name);
  return entry->run(rest);
}

// What a full disk or a closed pipe keeps from being written shows only when the buffer is emptied.
SystemError error_of_output(int error_number) {
  return system_error("[standard output] expected to write the whole result, got {}",
                      error_number == 0 ? "a write that failed" : std::strerror(error_number));
}

void flush_output() {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) throw error_of_output(errno);
}

// Of a text that is longer than the buffer, fmt finds it.
ErrorReport report_of_print(const std::system_error& error) {
  return std::ferror(stdout) != 0 ? report_of(error_of_output(error.code().value())) : report_of(error);
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

int run_words(const std::vector<std::string>& words) {
  try {
    check_words(words);
    const int exit_code = dispatch(words);
    flush_output();
    return exit_code_of_rank(exit_code);
  } catch (const Stopped& stop) {
    leave_closed_output();
    fmt::print(stderr, "{}\n", stop.what());
    return exit_code_of_stop(stop.signal());
  } catch (const std::system_error& error) {
    const ErrorReport report = report_of_print(error);
    print_error(report);
    return exit_code_of(report.kind);
  } catch (const std::exception& error) {
    const ErrorReport report = report_of(error);
    print_error(report);
    return exit_code_of(report.kind);
  }
}

}  // namespace

int run_program(const std::vector<std::string>& words) {
  const int exit_code = run_words(words);
  end_rank_of_process(exit_code);
  return exit_code;
}

}  // namespace shoehorn
