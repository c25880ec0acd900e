#include "lab/ladder_page.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>

#include "lab/ladder_testing.h"
#include "report/plot.h"

namespace shoehorn {
namespace {

int64_t count_of(const std::string& text, const std::string& piece) {
  int64_t count = 0;
  for (size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) ++count;
  return count;
}

TEST(LadderPage, EveryRungIsInEachPart) {
  const LadderResult result = ladder_by_hand(true);
  const std::string page = ladder_page(result);
  EXPECT_EQ(count_of(page, "<figure>"), 2);
  EXPECT_EQ(count_of(page, "class=\"marktext\""), 2 * std::ssize(kPlotWidths))
      << "the reference, in both plots";
  const std::string text = std::regex_replace(page, std::regex("</?span[^>]*>"), "");
  for (const RungResult& rung : result.rungs) {
    // Two plots, the table and the flags; where it was not run also the reasons.
    EXPECT_GE(count_of(page, rung.rung.setting), 4) << rung.rung.name;
    EXPECT_EQ(count_of(text, fmt::format("{}", fmt::join(rung.rung.flags, " ")) + "</td>"), 1)
        << rung.rung.name;
  }
  for (const char* title : {"time x", "memory x", "HF first step s", "+ weights, planned", "HF + weights"})
    EXPECT_NE(page.find(fmt::format(">{}</th>", title)), std::string::npos) << title;
  EXPECT_NE(page.find("planned 6000 MiB, available 4000 MiB"), std::string::npos);
  EXPECT_NE(page.find("fp16 is skipped on this device"), std::string::npos);
  EXPECT_GT(count_of(page, "Hugging Face Trainer"), 2);
  EXPECT_EQ(ladder_page(ladder_by_hand(false)).find("Hugging Face Trainer"), std::string::npos);
}

TEST(LadderPage, NothingMeasured) {
  LadderResult result = ladder_by_hand(false);
  for (RungResult& rung : result.rungs) {
    rung.ours = {};
    rung.ours.outcome = RunOutcome::kDoesNotFit;
    rung.ours.reason = "planned more";
    rung.plan.peak_bytes = 0;
  }
  const std::string page = ladder_page(result);
  EXPECT_EQ(count_of(page, "no values"), 2 * std::ssize(kPlotWidths));
  EXPECT_NE(page.find("planned more"), std::string::npos);
}

}  // namespace
}  // namespace shoehorn
