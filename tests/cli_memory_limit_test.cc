// A plan above a limit of the system is refused before it runs, and one below it runs: with cgroups as this
// machine's kernel has them, and with resource limits. Trees of other systems: base/memory_limit_test.cc.
#include <sys/mount.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "cli_support.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace shoehorn::testing;
using nlohmann::json;
namespace fs = std::filesystem;

constexpr int64_t kMebibyte = int64_t{1} << 20;

bool write_to(const fs::path& file, const std::string& text) {
  std::ofstream out(file);
  return static_cast<bool>((out << text).flush());
}

// The name that /proc/self/cgroup has for this process behind `controllers`; "" where it has none.
std::string own_group(const std::string& controllers) {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t at = line.find(controllers);
    if (at != std::string::npos) return line.substr(at + controllers.size());
  }
  return "";
}

// Two new groups, one in the other, of which the outer one has the limit. Removes them.
class NestedCgroups {
 public:
  ~NestedCgroups() {
    std::error_code ignored;
    fs::remove(inner(), ignored);
    fs::remove(outer_, ignored);
    if (!mounted_.empty()) {
      umount2(mounted_.c_str(), MNT_DETACH);
      fs::remove(mounted_, ignored);
    }
  }
  NestedCgroups() = default;
  NestedCgroups(const NestedCgroups&) = delete;
  NestedCgroups& operator=(const NestedCgroups&) = delete;

  // "" where there are the groups, else why not.
  std::string make_version1() {
    fs::path root = "/sys/fs/cgroup/memory";
    limit_file_ = "memory.limit_in_bytes";
    if (!fs::exists(root / limit_file_)) {
      std::string pattern = (fs::temp_directory_path() / "shoehorn-cgroup-XXXXXX").string();
      if (mkdtemp(pattern.data()) == nullptr) return "no directory to mount at";
      mounted_ = pattern;
      if (mount("none", mounted_.c_str(), "cgroup", 0, "memory") != 0)
        return std::string("the memory controller of version 1 cannot be mounted: ") + std::strerror(errno);
      root = mounted_;
    }
    const fs::path own = root / fs::path(own_group(":memory:")).relative_path();
    return make_below(fs::exists(own / limit_file_) ? own : root);
  }

  std::string make_version2() {
    const fs::path root = "/sys/fs/cgroup";
    limit_file_ = "memory.max";
    std::ifstream in(root / "cgroup.controllers");
    std::string all;
    std::getline(in, all);
    if (all.find("memory") == std::string::npos) return "version 2 has no memory controller here";
    if (!write_to(root / "cgroup.subtree_control", "+memory"))
      return "the memory controller cannot be given on";
    std::string why = make_below(root);
    if (why.empty() && !write_to(outer_ / "cgroup.subtree_control", "+memory"))
      why = "the memory controller cannot be given on twice";
    return why;
  }

  fs::path inner() const { return outer_ / "inner"; }
  fs::path limit_file() const { return outer_ / limit_file_; }
  bool set_limit(int64_t bytes) const { return write_to(limit_file(), std::to_string(bytes)); }

 private:
  std::string make_below(const fs::path& parent) {
    std::error_code error;
    const fs::path outer = parent / ("shoehorn-test-" + std::to_string(getpid()));
    if (!fs::create_directory(outer, error)) return "no group can be made in " + parent.string();
    outer_ = outer;
    if (!fs::create_directory(inner(), error)) return "no group can be made in " + outer.string();
    return fs::exists(limit_file()) ? "" : limit_file().string() + " is not there";
  }

  fs::path outer_;
  fs::path mounted_;
  std::string limit_file_;
};

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
