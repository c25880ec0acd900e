// The page with the anatomies of a step.
#pragma once

#include <string>

#include "analysis/memory_anatomy.h"
#include "analysis/operation_anatomy.h"
#include "analysis/rank_traffic.h"
#include "report/plot.h"

namespace shoehorn {

// Shows memory along the step (memory_chart.h) and by part, and each operation class's share of flops, bytes
// and time; of several ranks what they send.
std::string anatomy_page(const std::string& title, const std::string& subtitle,
                         const AreaChart& memory_along_step, const MemoryAnatomy& memory,
                         const OperationAnatomy& operations, const StepTraffic& traffic);

}  // namespace shoehorn
