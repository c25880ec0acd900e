// Creates backends by name. This is the only place that knows which backends exist.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exec/backend/backend.h"
#include "ranks/communicator.h"

namespace shoehorn {

inline constexpr std::string_view kDefaultBackend = "cpu";

// The names that make_backend accepts.
std::vector<std::string> backend_names();

// A backend for this machine. `threads` is the size of the OpenMP team of the host's kernels (0: thread_count() of
// exec/backend/thread_count.h), set for the whole process. `ranks`: those that programs for several ranks run on; null: one
// rank. UserError for an unknown name; the message lists the known ones.
std::unique_ptr<Backend> make_backend(std::string_view name = kDefaultBackend, int threads = 0,
                                      std::shared_ptr<Communicator> ranks = {});

// A backend that plans for the machine that a profile describes, and runs nothing. If that is this machine,
// its plans are exact; otherwise workspaces are an upper bound. UserError as above.
std::unique_ptr<Backend> make_backend_for(const OtherMachine& machine);

// The profile of this machine with the default backend and the number of threads of the first call.
const MachineProfile& this_machine();

}  // namespace shoehorn
