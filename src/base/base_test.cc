#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "base/bfloat16.h"
#include "base/error.h"
#include "base/error_testing.h"
#include "base/format.h"
#include "base/philox.h"
#include "base/process.h"

namespace shoehorn {
namespace {

TEST(Format, Bytes) {
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(int64_t{3} << 30), "3.00 GiB");
}

TEST(Format, CountsAndSeconds) {
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_count(-12), "-12");
  EXPECT_EQ(format_seconds(3725.2), "1:02:05");
  EXPECT_EQ(format_seconds(12.34), "12.3 s");
}

TEST(Format, ParseBytes) {
  EXPECT_EQ(parse_bytes("6GiB", "--memory_budget"), int64_t{6} << 30);
  EXPECT_EQ(parse_bytes("1.5 GB", "x"), 1500000000);
  EXPECT_EQ(parse_bytes("1048576", "x"), 1048576);
  EXPECT_EQ(parse_bytes("77B", "x"), 77);
  EXPECT_EQ(parse_bytes("0", "x"), 0);
  for (const char* bad : {"", "GiB", "-1GiB", "6 parsecs", "1e300GiB", "nan", "inf", "+6GiB"})
    EXPECT_THROW(parse_bytes(bad, "x"), UserError);
}

TEST(Format, FewBytesNeedAUnit) {
  for (const std::string bare : {"500", "1.5", "0.25", "1048575"}) {
    EXPECT_EQ(refusal_of([&] { parse_bytes(bare + " ", "--memory_budget"); }),
              "[--memory_budget] expected a number of bytes such as 6GiB or 512MiB, got '" + bare +
                  " ', which is bytes; give a unit, as " + bare + "MiB");
  }
}

TEST(Format, NearestName) {
  EXPECT_EQ(nearest_name("learning_rat", {"learning_rate", "weight_decay"}), "learning_rate");
  EXPECT_EQ(nearest_name("zzzzzzzz", {"learning_rate", "weight_decay"}), "");
}

// The edit distance of two long names takes as long as their product.
TEST(Format, LongNamesAreNoMisspelling) {
  EXPECT_EQ(nearest_name(std::string(1 << 20, 'a'), {"learning_rate", std::string((1 << 20) + 1, 'a')}), "");
  EXPECT_EQ(nearest_name("learning_rat", {std::string(1 << 20, 'a'), "learning_rate"}), "learning_rate");
}

TEST(Format, ShortenedTextIsNotCutInsideACharacter) {
  EXPECT_EQ(shorten("short", 5), "short");
  EXPECT_EQ(shorten("longer", 5), "longe…");
  EXPECT_EQ(shorten("é€é", 4), "é…");
}

TEST(Format, PrintableTextDrivesNoTerminalAndHasAnEnd) {
  EXPECT_EQ(printable("[label]\n  'é€'", 100), "[label]\n  'é€'");
  EXPECT_EQ(printable("\x1b[2J\r\x7f\xc2\x9bJ", 100), "\\x1b[2J\\x0d\\x7f\\x9bJ");
  const std::string cut = printable("begin" + std::string(10'000, 'x') + "hint", 400);
  EXPECT_LT(cut.size(), 450U);
  EXPECT_EQ(cut.find("begin"), 0U);
  EXPECT_EQ(cut.substr(cut.size() - 4), "hint");
  EXPECT_NE(cut.find("[9609 bytes left out]"), std::string::npos) << cut;
}

// Over all random bits the mean is the number itself; sums of bfloat16s of neighbouring size are exact.
TEST(Bfloat16, StochasticRoundingIsTheNumberOnAverage) {
  for (const float x : {1.0F, 1.0F + 0x1p-23F, 0x1.fffffep0F, -0.3F, 3.14159274F, -1e-3F, 1e-40F, 0x1p-149F,
                        0x1.fe8p127F, 0.0F}) {
    double sum = 0;
    int64_t up = 0;
    for (uint32_t random = 0; random < 65536; ++random) {
      const float rounded = to_float(round_stochastically(x, random));
      sum += static_cast<double>(rounded);
      up += std::abs(rounded) > std::abs(x) ? 1 : 0;
    }
    if (std::isfinite(sum)) {
      EXPECT_EQ(sum / 65536, static_cast<double>(x));
    }
    EXPECT_EQ(up, std::bit_cast<uint32_t>(x) & 0xffffU) << x;
  }
}

TEST(Bfloat16, StochasticRoundingLeavesWhatIsExactInfiniteOrNoNumber) {
  for (const uint32_t random : {0U, 1U, 0x8000U, 0xffffU}) {
    for (const uint32_t exact : {0x3f80U, 0xc049U, 0x0001U, 0x8000U, 0x7f7fU, 0x7f80U, 0xff80U})
      EXPECT_EQ(round_stochastically(to_float(bfloat16{static_cast<uint16_t>(exact)}), random).bits, exact);
    for (const uint32_t nan : {0x7fffffffU, 0xffffffffU, 0x7f800001U, 0xffc00000U}) {
      const float rounded = to_float(round_stochastically(std::bit_cast<float>(nan), random));
      EXPECT_TRUE(std::isnan(rounded)) << nan;
    }
  }
}

TEST(Bfloat16, RoundsToNearestEven) {
  EXPECT_EQ(to_bfloat16(1.0F).bits, 0x3f80);
  EXPECT_EQ(to_bfloat16(1.0F + 0x1p-8F).bits, 0x3f80);            // tie: to even
  EXPECT_EQ(to_bfloat16(1.0F + 0x1p-7F + 0x1p-8F).bits, 0x3f82);  // tie: to even
  EXPECT_TRUE(to_float(to_bfloat16(__builtin_nanf(""))) != to_float(to_bfloat16(__builtin_nanf(""))));
}

// Known answers of Random123's kat_vectors for philox4x32-10.
TEST(Philox, KnownAnswers) {
  const std::array<uint32_t, 4> zero = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  EXPECT_EQ(philox4x32_10({0, 0}, {0, 0, 0, 0}), zero);
  const std::array<uint32_t, 4> ones = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
  EXPECT_EQ(philox4x32_10({~0U, ~0U}, {~0U, ~0U, ~0U, ~0U}), ones);
}

// Every bit of the seed is in the key, apart from the step and the stream.
TEST(Philox, TheKeyIsOfTheWholeSeed) {
  const PhiloxKey key = philox_key(0x0123456789abcdefU, 5, 0);
  EXPECT_EQ(key.k0, 0x89abcdefU);
  EXPECT_EQ(key.k1, 0x01234567U ^ 5U);
  EXPECT_EQ(philox_key(0, 0, 1).k0, 0x9E3779B9U);
  EXPECT_EQ(philox_key(0, 0, 1).k1, 0U);
}

TEST(Philox, KeepScaleIsUnbiased) {
  for (const float p : {0.0F, 0.1F, 0.5F}) {
    EXPECT_NEAR(keep_scale(p) * (1.0 - drop_threshold(p) / 65536.0), 1.0, 1e-7);
    EXPECT_NEAR(drop_threshold(p) / 65536.0, p, 0x1p-17);
  }
}

TEST(Process, AgeGrows) {
  const double age = process_age_seconds();
  EXPECT_GE(age, 0);
  EXPECT_LT(age, 3600);
  EXPECT_GE(process_age_seconds(), age);
}

TEST(Process, PeakIsAtLeastResident) {
  EXPECT_GT(process_resident_bytes(), 0);
  EXPECT_GE(process_peak_bytes(), process_resident_bytes());
}

// A process that holds `bytes` of memory until its owner goes.
class ProcessThatHolds {
 public:
  explicit ProcessThatHolds(size_t bytes) {
    int ends[2];
    if (pipe(ends) != 0) throw SystemError("no pipe");
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const std::vector<char> held(bytes, 1);
      if (write(ends[1], held.data(), 1) == 1) pause();
      _exit(1);
    }
    close(ends[1]);
    char ready = 0;
    const bool is_ready = read(ends[0], &ready, 1) == 1;
    close(ends[0]);
    if (!is_ready) throw SystemError("the process did not start");
  }
  ~ProcessThatHolds() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  ProcessThatHolds(const ProcessThatHolds&) = delete;
  ProcessThatHolds& operator=(const ProcessThatHolds&) = delete;

  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

TEST(Process, TheLargestOthersComeFirst) {
  // Made smallest first, so that neither the order of the list of processes nor the one of their start is it.
  const ProcessThatHolds small(size_t{8} << 20);
  const ProcessThatHolds large(size_t{64} << 20);
  const MemoryLimit machine = {.kind = MemoryLimitKind::kMachine};
  const auto all = largest_other_processes(100000, machine);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.resident_bytes > b.resident_bytes;
  }));
  const auto place = [&](pid_t pid) {
    return std::find_if(all.begin(), all.end(), [&](const auto& process) { return process.pid == pid; }) -
           all.begin();
  };
  EXPECT_LT(place(large.pid()), place(small.pid()));
  EXPECT_LT(place(small.pid()), static_cast<ptrdiff_t>(all.size()));
  EXPECT_EQ(place(getpid()), static_cast<ptrdiff_t>(all.size())) << "itself among the others";
  EXPECT_EQ(largest_other_processes(1, machine).size(), 1U);
}

TEST(Error, CheckThrowsInternalErrorWithPlace) {
  try {
    CHECK(1 == 2, "one is {}", 1);
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("one is 1"), std::string::npos);
  }
}

}  // namespace
}  // namespace shoehorn
