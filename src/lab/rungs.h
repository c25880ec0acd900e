// What ladders of settings share: a rung is a name, what a person reads, and flags that `shoehorn train`
// takes as they stand.
#pragma once

#include <string>
#include <vector>

#include "lab/text_table.h"

namespace shoehorn {

struct Rung {
  std::string name;     // as --rungs takes it
  std::string setting;  // as a person reads it
  std::vector<std::string> flags;
};

// Where in `known` the named ones are, increasing; no names are all of them. UserError for an unknown or
// repeated name.
std::vector<size_t> choose_names(const std::vector<std::string>& known,
                                 const std::vector<std::string>& names);

// The same of rungs; `R` is a Rung.
template <typename R>
std::vector<R> choose_among(const std::vector<R>& known, const std::vector<std::string>& names) {
  std::vector<std::string> known_names;
  for (const R& rung : known) known_names.push_back(rung.name);
  std::vector<R> chosen;
  for (const size_t at : choose_names(known_names, names)) chosen.push_back(known[at]);
  return chosen;
}

// What to type for each rung.
TextTable flag_table(const std::vector<const Rung*>& rungs, const std::string& flags_title);

}  // namespace shoehorn
