#include "cli/pass_table.h"

#include <gtest/gtest.h>

namespace shoehorn {
namespace {

TEST(FormatPasses, SaysByHowMuchAndWhatIsIdleOrSkipped) {
  const std::vector<PassEffect> effects = {
      {.name = "fuse_attention",
       .exactness = Exactness::kRoundingOnly,
       .with = {.nodes = 10, .flops = 3e9, .bytes = 1 << 20, .seconds = 0.002, .arena_bytes = 4 << 20},
       .without = {.nodes = 14, .flops = 3e9, .bytes = 3 << 20, .seconds = 0.004, .arena_bytes = 3 << 20}},
      {.name = "recompute"},
      {.name = "fuse_update", .is_skipped = true}};
  EXPECT_EQ(format_passes(effects),
            "What each pass changes in a step, against the step without it (--skip_pass NAME)\n"
            "  pass            nodes  flops  bytes moved  time, at least     arenas  results\n"
            "  fuse_attention     -4      0    -2.00 MiB         -2.0 ms  +1.00 MiB  rounding only\n"
            "  nothing to do here: recompute\n"
            "  skipped: fuse_update\n");
}

}  // namespace
}  // namespace shoehorn
