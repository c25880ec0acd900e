#include "lab/error_report.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/user_error_kinds.h"

namespace shoehorn {
namespace {

TEST(ErrorReportTest, KindsByType) {
  EXPECT_EQ(report_of(DoesNotFit("[memory] m")).kind, ErrorKind::kDoesNotFit);
  EXPECT_EQ(report_of(not_in_this_version("[{}] m", "--x")).kind, ErrorKind::kNotInThisVersion);
  EXPECT_EQ(report_of(UserError("[memory] not in this version")).kind, ErrorKind::kUser)
      << "whatever it says";
  EXPECT_EQ(report_of(SystemError("s")).kind, ErrorKind::kOther);
  EXPECT_EQ(report_of(InternalError("s")).kind, ErrorKind::kOther);
  EXPECT_EQ(exit_code_of(ErrorKind::kDoesNotFit), 2);
  EXPECT_EQ(exit_code_of(ErrorKind::kNotInThisVersion), 2);
  EXPECT_EQ(exit_code_of(ErrorKind::kUser), 2);
  EXPECT_EQ(exit_code_of(ErrorKind::kOther), 1);
}

TEST(ErrorReportTest, AnObjectForAProgramThatAsksForIt) {
  EXPECT_EQ(format_error({ErrorKind::kUser, "[x] a line"}), "error: [x] a line\n");
  ASSERT_EQ(putenv(const_cast<char*>(kErrorsAsJson.data())), 0);
  for (const ErrorKind kind :
       {ErrorKind::kDoesNotFit, ErrorKind::kNotInThisVersion, ErrorKind::kUser, ErrorKind::kOther}) {
    const std::string line = format_error({kind, "[\xff\"x] two\nlines"});
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
    ErrorReport report;
    ASSERT_TRUE(read_error("a notice\n{\"error\": 3}\n" + line + "{}\n", report)) << line;
    EXPECT_EQ(report.kind, kind);
    EXPECT_EQ(report.message, "[\xef\xbf\xbd\"x] two\nlines");
  }
  unsetenv("SHOEHORN_ERRORS");
  ErrorReport report;
  EXPECT_FALSE(read_error("error: [x] a line\n{\"error\": \"m\", \"kind\": \"new\"}\n", report));
}

}  // namespace
}  // namespace shoehorn
