// The three kinds of error, told apart by who can do something about them:
//
//   UserError      bad input, a bad flag, a plan that does not fit: the caller can correct it. Exit code 2.
//   SystemError    the environment failed: a full disk, an unreadable file, a network that is down. Exit code 1.
//   InternalError  a bug of ours, raised through CHECK. Exit code 1.
//
// A message reads "[what] expected …, got …; hint". Library code never prints and never exits.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace shoehorn {

class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class SystemError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// Use: throw user_error("[--optim] expected one of {}, got '{}'; …", …)
template <typename... Args>
UserError user_error(fmt::format_string<Args...> format, Args&&... args) {
  return UserError(fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
SystemError system_error(fmt::format_string<Args...> format, Args&&... args) {
  return SystemError(fmt::format(format, std::forward<Args>(args)...));
}

[[noreturn]] void fail_check(const char* file, int line, const char* condition, const std::string& message);

}  // namespace shoehorn

// CHECK(condition, "format", args…) throws InternalError if an invariant of ours does not hold. The message
// is built only then.
#define CHECK(condition, ...)                                                             \
  do {                                                                                    \
    if (!(condition)) [[unlikely]]                                                        \
      ::shoehorn::fail_check(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)
