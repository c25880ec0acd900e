// The hosts of mpirun: a file with a host a line, "NAME slots=N"; what follows # is a comment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shoehorn {

// A line that names a host. One may be on several, and has the slots of all.
struct HostLine {
  std::string host;
  std::optional<int64_t> slots = {};  // unless the line says them, as many as processors
  std::string line = {};              // as it stands in the file, without its comment
};

// UserError "[--hostfile `name`] …" for a number of slots that is none.
std::vector<HostLine> lines_of_hosts(const std::string& text, const std::string& name);

// Each host once, in their order.
std::vector<std::string> names_of_hosts(const std::vector<HostLine>& lines);

// The lines of the others.
std::vector<HostLine> without_hosts(std::vector<HostLine> lines, const std::vector<std::string>& names);

// A hostfile of these lines.
std::string text_of_hosts(const std::vector<HostLine>& lines);

// How many of `ranks`, which were started on the hosts `all`, have a slot on those that are left; where a host does not say its slots,
// as large a share of the ranks as of the hosts. At least one.
int64_t ranks_that_are_left(int64_t ranks, const std::vector<HostLine>& all,
                            const std::vector<HostLine>& left);

// How many ranks the hosts take together, of a hostfile's `text`. A host on two lines has the slots of both. UserError
// "[--hostfile `name`] …" if there are none, for a host without, which has as many as processors, and for a number of slots that
// is none.
int64_t slots_of_hosts(const std::string& text, const std::string& name);

// The hosts in one word, "a:4,b:2", as MPICH's mpiexec takes them; one without slots has its name alone, and one of no slots is left
// out. UserError as above, but not for a host without.
std::string hosts_with_slots(const std::string& text, const std::string& name);

}  // namespace shoehorn
