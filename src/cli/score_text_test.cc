#include "cli/score_text.h"

#include <gtest/gtest.h>

namespace shoehorn {
namespace {

ScoreDetails two_classes() {
  return {.averages = {{"f1_macro", 0.5}},
          .classes = {{.name = "different", .precision = 0.75, .recall = 0.6, .f1 = 2.0 / 3, .support = 5},
                      {.name = "same", .precision = 0.5, .recall = 2.0 / 3, .f1 = 4.0 / 7, .support = 3}},
          .confusion = ConfusionMatrix{.names = {"different", "same"}, .counts = {3, 2, 1, 2}}};
}

TEST(FormatDetails, TablesAreAligned) {
  EXPECT_EQ(format_details(two_classes(), {}),
            "***** classes *****\n"
            "  class      precision  recall      f1  support\n"
            "  different     0.7500  0.6000  0.6667        5\n"
            "  same          0.5000  0.6667  0.5714        3\n"
            "***** confusion matrix: a row for each label, a column for each prediction *****\n"
            "             different       same\n"
            "  different          3          2\n"
            "  same               1          2\n");
  EXPECT_EQ(format_details({}, {}), "");
}

// As in scikit-learn's report. One that is predicted only, or a label only, is there.
TEST(FormatDetails, ClassesThatNothingNamesAreLeftOut) {
  const ScoreDetails details = {
      .averages = {},
      .classes = {{.name = "a", .precision = 1, .recall = 0.5, .f1 = 2.0 / 3, .support = 4},
                  {.name = "b"},
                  {.name = "c"},
                  {.name = "d", .support = 1}},
      .confusion = ConfusionMatrix{.names = {"a", "b", "c", "d"},
                                   .counts = {2, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}}};
  EXPECT_EQ(format_details(details, {}),
            "***** classes *****\n"
            "  class  precision  recall      f1  support\n"
            "  a         1.0000  0.5000  0.6667        4\n"
            "  c         0.0000  0.0000  0.0000        0\n"
            "  d         0.0000  0.0000  0.0000        1\n"
            "  and 1 other class, which no sample has as its label and no prediction names\n"
            "***** confusion matrix: a row for each label, a column for each prediction *****\n"
            "     a  c  d\n"
            "  a  2  2  0\n"
            "  c  0  0  0\n"
            "  d  0  1  0\n");
}

TEST(FormatDetails, TheDiagonalIsBoldOnATerminal) {
  const std::string text = format_details(two_classes(), {.bold = true});
  EXPECT_NE(text.find("\033[1m        3\033[0m          2\n"), std::string::npos) << text;
  EXPECT_EQ(format_details(two_classes(), {}).find('\033'), std::string::npos);
}

TEST(FormatDetails, NumbersStandForNamesWhereTheLineIsNarrow) {
  const std::string text = format_details(two_classes(), {.width = 24});
  EXPECT_NE(text.find("                 1  2\n    1 different  3  2\n    2 same       1  2\n"),
            std::string::npos)
      << text;
  EXPECT_NE(
      format_details(two_classes(), {.width = 10}).find("2 classes are too many for its width of 10 columns"),
      std::string::npos);
}

// A name from a file cannot give the terminal commands.
TEST(FormatDetails, NamesArePrintable) {
  ScoreDetails details = two_classes();
  details.classes[0].name = details.confusion->names[0] = "bad\033[31m";
  EXPECT_EQ(format_details(details, {}).find('\033'), std::string::npos);
}

}  // namespace
}  // namespace shoehorn
