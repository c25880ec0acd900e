// A chart of a planned step's memory.
#pragma once

#include "report/plot.h"
#include "session/session.h"

namespace shoehorn {

// Bytes by role along the nodes of the program that needs the most memory. The peak is marked.
AreaChart memory_chart(const Session& session);

}  // namespace shoehorn
