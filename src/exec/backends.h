// The backends that there are, by name: the one place that knows.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exec/backend/backend.h"

namespace shoehorn {

inline constexpr std::string_view kDefaultBackend = "cpu";

// The names that make_backend takes.
std::vector<std::string> backend_names();

// A backend on this machine. `threads` is the size of the team of the host's kernels, 0 for OpenMP's default;
// it holds for the process. UserError for another name, listing those there are.
std::unique_ptr<Backend> make_backend(std::string_view name = kDefaultBackend, int threads = 0);

// A backend that plans for a machine as its file describes it. Where that is this machine, plans are what runs
// would take; elsewhere workspaces are an upper bound, and nothing runs. UserError as above.
std::unique_ptr<Backend> make_backend_for(const OtherMachine& machine);

// The profile of the default backend here, with OpenMP's default threads.
const MachineProfile& this_machine();

}  // namespace shoehorn
