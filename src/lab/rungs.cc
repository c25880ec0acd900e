#include "lab/rungs.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace shoehorn {

std::vector<size_t> choose_names(const std::vector<std::string>& known,
                                 const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw user_error("[--rungs] expected some of {}, got '{}'{}", fmt::join(known, ", "), name,
                       did_you_mean(nearest_name(name, known)));
    }
    if (std::count(names.begin(), names.end(), name) > 1)
      throw user_error("[--rungs] expected each rung once, got '{}' twice", name);
  }
  std::vector<size_t> chosen;
  for (size_t at = 0; at < known.size(); ++at) {
    if (names.empty() || std::find(names.begin(), names.end(), known[at]) != names.end())
      chosen.push_back(at);
  }
  return chosen;
}

TextTable flag_table(const std::vector<const Rung*>& rungs, const std::string& flags_title) {
  TextTable table{.columns = {{"setting"}, {"--rungs"}, {flags_title}}};
  for (const Rung* rung : rungs)
    table.rows.push_back({rung->setting, rung->name, fmt::format("{}", fmt::join(rung->flags, " "))});
  return table;
}

}  // namespace shoehorn
