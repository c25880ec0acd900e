// --link_bandwidth and --link_latency: the link between the ranks of a plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/message_time.h"
#include "arguments/command_options.h"
#include "cli/planned_machine.h"
#include "lab/mpi_memory.h"

namespace shoehorn {

std::vector<ArgumentSpec> link_rows();
// The same flags of a launch, whose messages take as long as over that link.
std::vector<ArgumentSpec> launched_link_rows();

// The link that the flags give; none where they give none. UserError for a link that is none.
std::optional<RankLink> given_link(const CommandOptions& options);

struct PlannedLink {
  std::optional<RankLink> link = {};
  std::string text = {};  // which hosts there are; which it is, or why it is not known
};

// Of a plan of ranks: as given, else for this machine as measured from this host (lab/link_measurement.h), for one of the catalogue by
// its data sheet. Of ranks on several hosts (--ranks_per_host) the flags give the link between these. The text says who is on which
// host, too. Of ranks with threads for all processors of their host, computing is slowed by copies as `shoehorn topo` measured them.
// Nothing of one rank. UserError for a link that is none.
PlannedLink planned_link(const CommandOptions& options, const TrainingArguments& args,
                         const PlannedMachine& machine);

// Of ranks that run: as `launch --link_bandwidth` makes it, else as measured. Nothing where hosts have other numbers of ranks: then
// nobody says which messages leave them.
std::optional<RankLink> link_of_run(const TrainingArguments& args);

// What MPI adds to the memory of each rank, which are not there; `is_here`: of a plan for this machine.
MpiMemory planned_mpi_memory(const TrainingArguments& args, bool is_here);

}  // namespace shoehorn
