// The anatomies of a step on one page.
#pragma once

#include <string>

#include "analysis/memory_anatomy.h"
#include "analysis/operation_anatomy.h"
#include "report/plot.h"

namespace shoehorn {

// Memory along the step (memory_chart.h) and by part; shares of flops, bytes and time of each class of
// operation.
std::string anatomy_page(const std::string& title, const std::string& subtitle,
                         const AreaChart& memory_along_step, const MemoryAnatomy& memory,
                         const OperationAnatomy& operations);

}  // namespace shoehorn
