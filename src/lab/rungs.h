// Shared by the ladders of settings. A rung has a name, a description, and flags for `shoehorn train`.
#pragma once

#include <string>
#include <vector>

#include "lab/text_table.h"

namespace shoehorn {

using Flags = std::vector<std::string>;

inline Flags operator+(Flags left, const Flags& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

struct Rung {
  std::string name;     // for --rungs
  std::string setting;  // for people
  Flags flags;
};

// The indices of the named ones in `known`, in increasing order; no names mean all. UserError for an unknown
// or repeated name.
std::vector<size_t> choose_names(const std::vector<std::string>& known,
                                 const std::vector<std::string>& names);

// The same for rungs; `R` derives from Rung.
template <typename R>
std::vector<R> choose_among(const std::vector<R>& known, const std::vector<std::string>& names) {
  std::vector<std::string> known_names;
  for (const R& rung : known) known_names.push_back(rung.name);
  std::vector<R> chosen;
  for (const size_t at : choose_names(known_names, names)) chosen.push_back(known[at]);
  return chosen;
}

// A table of the flags to type for each rung.
TextTable flag_table(const std::vector<const Rung*>& rungs, const std::string& flags_title);

}  // namespace shoehorn
