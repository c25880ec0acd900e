// How the program reports why it ended: a line for people; or, for a parent process of ours, a JSON object
// with the kind of the error, so that the parent need not parse the message.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

namespace shoehorn {

// A process with this environment variable reports its error as a JSON object in one line of standard error.
inline constexpr std::string_view kErrorsAsJson = "SHOEHORN_ERRORS=json";

enum class ErrorKind : uint8_t {
  kDoesNotFit,        // exit code 2, like everything that the user can correct
  kNotInThisVersion,  // 2
  kUser,              // 2
  kOther,             // 1: the environment, or our bug
};

struct ErrorReport {
  ErrorKind kind = ErrorKind::kOther;
  std::string message;
};

ErrorReport report_of(const std::exception& error);
int exit_code_of(ErrorKind kind);

// The line to print, in the requested form.
std::string format_error(const ErrorReport& report);

// Finds the report in an ended process's standard error; false if there is none.
bool read_error(const std::string& standard_error, ErrorReport& report);

}  // namespace shoehorn
