// The memory of a planned step as a picture.
#pragma once

#include "report/plot.h"
#include "session/session.h"

namespace shoehorn {

// By role, along the operations of the program that needs most; its peak is marked.
AreaChart memory_chart(const Session& session);

}  // namespace shoehorn
