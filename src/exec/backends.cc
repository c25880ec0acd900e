#include "exec/backends.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "exec/cpu/cpu_backend.h"
#include "exec/null/null_backend.h"

namespace shoehorn {

std::vector<std::string> backend_names() {
  return {"cpu"};
}

std::unique_ptr<Backend> make_backend(std::string_view name, int threads,
                                      std::shared_ptr<Communicator> ranks) {
  if (name == "cpu") return make_cpu_backend(threads, std::move(ranks));
  throw user_error("[backend] expected one of {}, got '{}'", fmt::join(backend_names(), ", "), name);
}

std::unique_ptr<Backend> make_backend_for(const OtherMachine& machine) {
  std::unique_ptr<Backend> here = make_backend(machine.profile.backend);
  if (plans_alike(machine.profile, here->machine())) return here;
  return make_null_backend(machine);
}

const MachineProfile& this_machine() {
  static const MachineProfile profile = make_backend()->machine();
  return profile;
}

}  // namespace shoehorn
