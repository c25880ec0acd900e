// Which program this is: its version, the commit it was built from, its compiler, and the libraries that it runs with.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace shoehorn {

// "0.1.0".
std::string program_version();
// The day of the commit, "2026-11-23"; empty where it is not known, as outside of a git repository.
std::string commit_date();

// {"version", "commit", "commit_date", "compiler", "libraries": {name: version}}; commit is "unknown" where it is not
// known, and ends in "+changes" where tracked files differed from it.
nlohmann::ordered_json version_json();

// The same as lines; the first one is "shoehorn 0.1.0 (commit …)".
std::string format_version();

}  // namespace shoehorn
