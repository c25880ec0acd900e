// What commands show on a terminal while they work: where the result is far, they say what they are at, and take it back.
#include "cli_support.h"
#include "on_terminal.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

constexpr const char* kErased = "\r\x1b[K";

class CliTerminal : public CliTest {
 protected:
  // Nothing of what the user of this machine has calibrated.
  CliTerminal() { setenv("XDG_CACHE_HOME", path("cache").c_str(), 1); }
  ~CliTerminal() override { unsetenv("XDG_CACHE_HOME"); }

  // What the command shows, which has to succeed.
  static std::string shown(const std::vector<std::string>& words) {
    OnTerminal program(words);
    program.read_until("nothing ends with this");
    EXPECT_EQ(program.exit_code(), 0) << program.shown();
    return program.shown();
  }

  static void expect_passing(const std::string& shown, const std::string& stage) {
    const size_t at = shown.find(stage);
    ASSERT_NE(at, std::string::npos) << stage << ": " << shown;
    EXPECT_NE(shown.find(kErased, at), std::string::npos) << stage;
  }
};

TEST_F(CliTerminal, EnvSaysThatItMeasures) {
  expect_passing(shown({"env"}), "measuring what this machine reaches");
  EXPECT_EQ(run({"env"}).error, "") << "nothing without a terminal";
}

TEST_F(CliTerminal, FitSaysWhatItIsAt) {
  const std::string all = shown({"fit", "--model", "bert-mini", "--sequence_length", "32"});
  for (const char* stage :
       {"measuring what this machine reaches", "planning what may fit", "planning the best once more"})
    expect_passing(all, stage);
  EXPECT_EQ(
      shown({"fit", "--model", "bert-mini", "--sequence_length", "32", "--log_level", "error"}).find(kErased),
      std::string::npos);
}

}  // namespace
}  // namespace shoehorn
