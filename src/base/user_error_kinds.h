// Kinds of UserError that callers tell apart by type. A message is for people: no code reads it to decide.
#pragma once

#include <utility>

#include "base/error.h"

namespace shoehorn {

// A plan takes more memory than the budget.
class DoesNotFit : public UserError {
 public:
  using UserError::UserError;
};

// The user asked for something that is known but not built yet.
class NotInThisVersion : public UserError {
 public:
  using UserError::UserError;
};

template <typename... Args>
NotInThisVersion not_in_this_version(fmt::format_string<Args...> format, Args&&... args) {
  return NotInThisVersion(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace shoehorn
