// The style sheet and the script that every page contains.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "report/plot.h"

namespace shoehorn {

// The colours of a page, as #rrggbb. Each series has a contrast of at least 3 with the surface (WCAG 1.4.11),
// each text at least 4.5 (1.4.3).
struct PagePalette {
  std::string_view surface;
  std::string_view ink;
  std::string_view muted;  // less important text
  std::string_view rule;   // lines of tables and grids
  std::string_view panel;  // background of tiles and fixed-width text
  std::array<std::string_view, kSeriesColors> series;
};

extern const PagePalette kLightPalette;
extern const PagePalette kDarkPalette;

std::string page_style();
std::string_view page_script();

}  // namespace shoehorn
