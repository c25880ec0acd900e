// A square table of counts with shaded cells, as SVG for html_page.h: confusion matrices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shoehorn {

// N rows and columns of the same names. A cell's shade is its share of its row; it shows its count where there is room,
// and always when the pointer rests on it. A row without counts has no shade.
struct HeatMap {
  std::string title = {};
  std::string row_title = {};     // what rows are: "label"
  std::string column_title = {};  // "prediction"
  std::vector<std::string> names = {};
  std::vector<int64_t> counts = {};  // [N, N], row-major
};

// CHECKs the number of counts. Texts are escaped.
std::string draw(const HeatMap& map);

// One drawing of plot.h's widths.
std::string draw(const HeatMap& map, double width);

}  // namespace shoehorn
