// The style sheet and the script of every page.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "report/plot.h"

namespace shoehorn {

// Colours of a page; each series differs from the surface by a contrast of at least 3 (WCAG 1.4.11), each
// text by 4.5 (1.4.3). #rrggbb.
struct PagePalette {
  std::string_view surface;
  std::string_view ink;
  std::string_view muted;  // text of less weight
  std::string_view rule;   // lines of tables and grids
  std::string_view panel;  // behind tiles and fixed-width text
  std::array<std::string_view, kSeriesColors> series;
};

extern const PagePalette kLightPalette;
extern const PagePalette kDarkPalette;

std::string page_style();
std::string_view page_script();

}  // namespace shoehorn
