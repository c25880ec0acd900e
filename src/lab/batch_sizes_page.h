// The results of `bench batch` as an HTML page.
#pragma once

#include <string>

#include "lab/batch_sizes.h"

namespace shoehorn {

// One HTML file with plots of samples per second and memory by batch size, and the tables.
std::string batch_sizes_page(const BatchSizesResult& result);

}  // namespace shoehorn
