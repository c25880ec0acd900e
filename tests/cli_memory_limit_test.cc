// A plan above a limit of the system is refused before it runs, and one below it runs: with cgroups as this
// machine's kernel has them, and with resource limits. Trees of other systems: base/memory_limit_test.cc.
#include <nlohmann/json.hpp>
#include <optional>

#include "cli_support.h"
#include "io/json_file.h"
#include "nested_cgroups.h"

namespace shoehorn {
namespace {

using namespace shoehorn::testing;
using nlohmann::json;
namespace fs = std::filesystem;

class CliMemoryLimit : public CliTest {
 protected:
  CliMemoryLimit() { directory_.write("train.csv", labelled_csv(5120, 4)); }

  std::vector<std::string> words(const std::string& command) const {
    std::vector<std::string> words =
        train_words({"--per_device_train_batch_size", "5120", "--max_steps", "1"});
    words[0] = command;
    if (command == "plan") words.emplace_back("--json");
    return words;
  }

  json plan(const ProgramLimits& limits = {}) const {
    return parse_json(run(words("plan"), limits).output, "output");
  }

  // The run is refused and says `why`; nothing is written.
  void expect_refusal(const ProgramLimits& limits, const std::vector<std::string>& why) const {
    std::vector<std::string> parts = {"[memory]", "nothing was reserved"};
    parts.insert(parts.end(), why.begin(), why.end());
    expect_failure(words("train"), 2, parts, limits);
    EXPECT_TRUE(written().empty());
  }

  void expect_cgroup_is_a_limit(const NestedCgroups& groups) const {
    const json free = plan();
    const auto peak = free["process_peak_bytes"].get<int64_t>();
    const auto arenas = free["arena_bytes"].get<int64_t>();
    ASSERT_GT(arenas, 64 * kMebibyte);
    ASSERT_TRUE(groups.set_limit(peak - arenas * 2 / 5));
    const ProgramLimits limits{.cgroup = groups.inner()};
    const json refused = plan(limits);
    EXPECT_FALSE(refused["fits"].get<bool>());
    EXPECT_EQ(refused["limit"]["kind"], "cgroup");
    EXPECT_EQ(refused["limit"]["path"], groups.limit_file().string());
    expect_refusal(limits, {groups.limit_file().string()});
    // With room for everything and what the kernel keeps for it (page tables, stacks), it runs.
    ASSERT_TRUE(groups.set_limit(peak + 64 * kMebibyte));
    const ProgramRun trained = run(words("train"), limits);
    EXPECT_EQ(trained.exit_code, 0) << trained.error;
  }
};

TEST_F(CliMemoryLimit, CgroupOfVersion1) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  NestedCgroups groups;
  if (const std::string why = groups.make_version1(); !why.empty()) GTEST_SKIP() << why;
  expect_cgroup_is_a_limit(groups);
}

TEST_F(CliMemoryLimit, CgroupOfVersion2) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  NestedCgroups groups;
  if (const std::string why = groups.make_version2(); !why.empty()) GTEST_SKIP() << why;
  expect_cgroup_is_a_limit(groups);
}

// At the limit itself: what a plan says it needs is enough, threads' stacks included.
TEST_F(CliMemoryLimit, AddressSpace) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes address space of its own";
  const int64_t wide = int64_t{1} << 30;
  const json free = plan({.address_space_bytes = wide});
  ASSERT_TRUE(free["fits"].get<bool>());
  ASSERT_EQ(free["limit"]["kind"], "address_space") << "the machine has less than 1 GiB left";
  const int64_t needed =
      wide - (free["budget_bytes"].get<int64_t>() - free["process_peak_bytes"].get<int64_t>());
  expect_refusal({.address_space_bytes = needed - 16 * kMebibyte}, {"ulimit -v"});
  const ProgramRun trained = run(words("train"), {.address_space_bytes = needed + 4 * kMebibyte});
  EXPECT_EQ(trained.exit_code, 0) << trained.error;
}

}  // namespace
}  // namespace shoehorn
