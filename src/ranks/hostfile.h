// The hosts of mpirun: a file with a host a line, "NAME slots=N"; what follows # is a comment.
#pragma once

#include <cstdint>
#include <string>

namespace shoehorn {

// How many ranks the hosts take together, of a hostfile's `text`. A host on two lines has the slots of both. UserError
// "[--hostfile `name`] …" if there are none, for a host without, which has as many as processors, and for a number of slots that
// is none.
int64_t slots_of_hosts(const std::string& text, const std::string& name);

// The hosts in one word, "a:4,b:2", as MPICH's mpiexec takes them; one without slots has its name alone, and one of no slots is left
// out. UserError as above, but not for a host without.
std::string hosts_with_slots(const std::string& text, const std::string& name);

}  // namespace shoehorn
