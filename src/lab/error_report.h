// How the program says why it ended: a line for people, or for a program of ours that started it an object with
// the kind of the error, so that it need not read the line.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

namespace shoehorn {

// A process started with this variable reports its error as an object in one line of standard error.
inline constexpr std::string_view kErrorsAsJson = "SHOEHORN_ERRORS=json";

enum class ErrorKind : uint8_t {
  kDoesNotFit,        // exit code 2, as all that the user can mend
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

// The line to print, in the form that this process was asked for.
std::string format_error(const ErrorReport& report);

// The report among the lines of an ended process's standard error; false where there is none.
bool read_error(const std::string& standard_error, ErrorReport& report);

}  // namespace shoehorn
