#include "lab/text_table.h"

#include <gtest/gtest.h>

namespace shoehorn {
namespace {

TEST(TextTable, ColumnsAlign) {
  EXPECT_EQ(
      format_table({{"setting"}, {"MiB", true}, {"note"}}, {{"a", "12345", "x"}, {"longer one", "7", ""}}),
      "  setting       MiB  note\n"
      "  a           12345  x\n"
      "  longer one      7\n");
}

TEST(TextTable, WidthIsInCharacters) {
  EXPECT_EQ(format_table({{"a"}, {"b", true}}, {{"×…", "1"}, {"xy", "2"}}),
            "  a   b\n"
            "  ×…  1\n"
            "  xy  2\n");
}

}  // namespace
}  // namespace shoehorn
