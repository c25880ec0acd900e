// The anatomies of a step on one page.
#pragma once

#include <string>

#include "report/plot.h"
#include "train/memory_anatomy.h"
#include "train/operation_anatomy.h"

namespace shoehorn {

// Memory along the step (memory_chart.h) and by part; shares of flops, bytes and time of each class of
// operation.
std::string anatomy_page(const std::string& title, const std::string& subtitle,
                         const AreaChart& memory_along_step, const MemoryAnatomy& memory,
                         const OperationAnatomy& operations);

}  // namespace shoehorn
