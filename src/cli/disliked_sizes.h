// Tells of a model's sizes that the hardware likes less (lab/hardware_multiples.h): who chooses them may still change them.
#pragma once

#include "cli/planned_machine.h"
#include "cli/planned_task.h"

namespace shoehorn {

// A notice on standard error about the products of the task on the machine; none where all sizes are liked, or the arguments'
// log_level leaves notices out.
void tell_disliked_sizes(const PlannedTask& task, const PlannedMachine& machine);

}  // namespace shoehorn
