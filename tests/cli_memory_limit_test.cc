// A plan above a limit of the system is refused before it runs, and one below it runs: with cgroups as this
// machine's kernel has them, and with resource limits. Trees of other systems: base/memory_limit_test.cc.
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/memory_cgroup.h"
#include "base/processors.h"
#include "cli_support.h"
#include "io/json_file.h"
#include "nested_cgroups.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
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

  // A training that evaluates and saves behind each step.
  std::vector<std::string> words_of_all_phases(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"--per_device_train_batch_size",
                                    "1024",
                                    "--per_device_eval_batch_size",
                                    "256",
                                    "--validation_file",
                                    dev(),
                                    "--eval_strategy",
                                    "steps",
                                    "--eval_steps",
                                    "1",
                                    "--save_strategy",
                                    "steps",
                                    "--save_steps",
                                    "1"};
    all.insert(all.end(), more.begin(), more.end());
    return train_words(all);
  }
  std::string dev() const { return path("dev.csv").string(); }
  std::vector<std::string> resume_words(std::vector<std::string> words, const std::string& steps) const {
    words.insert(words.end(), {"--resume_from_checkpoint", "true", "--max_steps", steps});
    return words;
  }
  std::vector<std::string> eval_words(const std::string& batch) const {
    return {"eval",
            "--model_name_or_path",
            output().string(),
            "--validation_file",
            dev(),
            "--per_device_eval_batch_size",
            batch,
            "--output_dir",
            path("evaluated").string()};
  }

  // In a group with room for the plan and what the kernel adds to it every phase runs; where the plan is 2% more than what is left
  // nothing begins.
  void expect_every_phase_runs_in_its_plan(const NestedCgroups& groups) const {
    directory_.write("dev.csv", labelled_csv(512, 5));
    std::vector<std::string> plan = words_of_all_phases({"--json"});
    plan[0] = "plan";
    const json planned = parse_json(run(plan).output, "output");
    const auto peak = planned["process_peak_bytes"].get<int64_t>();
    const auto room = [](int64_t bytes) { return bytes + std::max(bytes / 50, 8 * kMebibyte); };
    const ProgramLimits limits{.cgroup = groups.inner()};
    const auto expect_run = [&](const std::vector<std::string>& words, int64_t bytes, const char* phase) {
      ASSERT_TRUE(groups.set_limit(room(bytes))) << phase;
      const ProgramRun done = run(words, limits);
      EXPECT_EQ(done.exit_code, 0) << phase << ": " << done.error;
    };
    expect_run(words_of_all_phases({"--max_steps", "1"}), peak, "train, evaluate, save");
    expect_run(resume_words(words_of_all_phases(), "2"), peak, "resume");
    expect_run(eval_words("256"), planned["evaluation_only"]["process_peak_bytes"].get<int64_t>(),
               "evaluate alone");
    fs::remove_all(output());
    // Pages of libraries that other processes have, too, are not counted in the group: the plan itself says what is left.
    const int64_t wide = room(peak);
    ASSERT_TRUE(groups.set_limit(wide));
    const auto left = parse_json(run(plan, limits).output, "output")["budget_bytes"].get<int64_t>();
    ASSERT_TRUE(groups.set_limit(wide - (left - peak) - peak / 50));
    expect_failure(words_of_all_phases(), 2, {"[memory]", "nothing was reserved"}, limits);
    EXPECT_TRUE(written().empty());
    EXPECT_EQ(groups.oom_kills(), 0);
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

  // The plan, and what is a little above or below it, is refused or runs where so much is left: page tables of a gigabyte are
  // counted, too.
  void expect_no_kill_about_the_plan(const NestedCgroups& groups) const {
    const std::vector<std::string> words = words_of_large_weights();
    std::vector<std::string> plan = words;
    plan[0] = "plan";
    plan.emplace_back("--json");
    constexpr int64_t kWide = int64_t{4} << 30;
    const ProgramLimits limits{.cgroup = groups.inner()};
    const auto plan_within = [&](int64_t bytes) {
      EXPECT_TRUE(groups.set_limit(bytes));
      return parse_json(run(plan, limits).output, "output");
    };
    const json wide = plan_within(kWide);
    ASSERT_TRUE(wide["fits"].get<bool>());
    if (wide["limit"]["kind"] != "cgroup") GTEST_SKIP() << "the machine has less than 4 GiB left";
    // Page tables of the other half take 4 MiB.
    const int64_t of_half = plan_within(kWide / 2)["budget_bytes"].get<int64_t>();
    EXPECT_NEAR(static_cast<double>(wide["budget_bytes"].get<int64_t>() - of_half), kWide / 2 - 4 * kMebibyte,
                2 * kMebibyte);
    ASSERT_GT(wide["arena_bytes"].get<int64_t>(), int64_t{1} << 30);
    const int64_t spare = wide["budget_bytes"].get<int64_t>() - wide["process_peak_bytes"].get<int64_t>();
    int refused = 0;
    for (const int64_t beside : {-16, -2, 0, 2, 16}) {
      ASSERT_TRUE(groups.set_limit(kWide - spare + beside * kMebibyte));
      const ProgramRun tried = run(words, limits);
      EXPECT_TRUE(tried.exit_code == 0 || tried.exit_code == 2) << beside << " MiB: " << tried.error;
      refused += tried.exit_code == 2 ? 1 : 0;
      fs::remove_all(output());
    }
    EXPECT_GT(refused, 0);
    EXPECT_LT(refused, 5);
    EXPECT_EQ(groups.oom_kills(), 0);
  }

  struct GroupRun {
    ProgramRun run;
    size_t most_processes = 0;  // at a time, as they were seen every millisecond
  };
  GroupRun run_in(const NestedCgroups& groups, const std::vector<std::string>& words) const {
    GroupRun done;
    StartedProgram program(words, directory_.path(), {.cgroup = groups.inner()});
    std::jthread watch([&](const std::stop_token& is_over) {
      for (; !is_over.stop_requested(); usleep(1000))
        done.most_processes = std::max(done.most_processes, processes_of_cgroup(groups.inner()).size());
    });
    done.run = program.wait();
    watch.request_stop();
    watch.join();
    return done;
  }

  // Weights and states of a gigabyte, and little to compute.
  std::vector<std::string> words_of_large_weights() const {
    json config = read_json(model() / "config.json");
    config.update({{"vocab_size", 160'000}, {"hidden_size", 512}, {"num_attention_heads", 8}});
    fs::create_directory(path("large"));
    write_json_atomic(path("large") / "config.json", config);
    return {"train",
            "--config_name",
            path("large").string(),
            "--tokenizer_name",
            model().string(),
            "--train_file",
            path("validation.csv").string(),
            "--per_device_train_batch_size",
            "1",
            "--max_steps",
            "1",
            "--save_strategy",
            "no",
            "--output_dir",
            output().string()};
  }
};

TEST_F(CliMemoryLimit, CgroupOfVersion1) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  NestedCgroups groups;
  if (const std::string why = groups.make_version1(); !why.empty()) GTEST_SKIP() << why;
  expect_cgroup_is_a_limit(groups);
}

TEST_F(CliMemoryLimit, EveryPhaseRunsInACgroupOfItsPlanOfVersion1) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  NestedCgroups groups;
  if (const std::string why = groups.make_version1(); !why.empty()) GTEST_SKIP() << why;
  expect_every_phase_runs_in_its_plan(groups);
}

TEST_F(CliMemoryLimit, CgroupOfVersion2) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  NestedCgroups groups;
  if (const std::string why = groups.make_version2(); !why.empty()) GTEST_SKIP() << why;
  expect_cgroup_is_a_limit(groups);
}

TEST_F(CliMemoryLimit, EveryPhaseRunsInACgroupOfItsPlanOfVersion2) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  NestedCgroups groups;
  if (const std::string why = groups.make_version2(); !why.empty()) GTEST_SKIP() << why;
  expect_every_phase_runs_in_its_plan(groups);
}

TEST_F(CliMemoryLimit, WithWhatThePlanTakesLeftNothingIsKilledInACgroupOfVersion1) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  NestedCgroups groups;
  if (const std::string why = groups.make_version1(); !why.empty()) GTEST_SKIP() << why;
  expect_no_kill_about_the_plan(groups);
}

// Twice what the search alone holds is no room for as many plans beside it as there are processors.
TEST_F(CliMemoryLimit, FitPlansAsManyAtATimeAsACgroupHasRoomForOfVersion1) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  NestedCgroups groups;
  if (const std::string why = groups.make_version1(); !why.empty()) GTEST_SKIP() << why;
  const std::vector<std::string> words = {
      "fit", "--model", "bert-mini",       "--per_device_train_batch_size",
      "8",   "--json",  "--memory_budget", "1GiB"};
  ASSERT_TRUE(groups.set_limit(int64_t{4} << 30));
  const GroupRun wide = run_in(groups, words);
  ASSERT_EQ(wide.run.exit_code, 0) << wide.run.error;
  EXPECT_EQ(wide.most_processes > 2, processors().usable() > 1);
  ASSERT_TRUE(groups.set_limit(2 * wide.run.peak_bytes));
  const GroupRun tight = run_in(groups, words);
  EXPECT_TRUE(tight.run.exit_code == 0 || tight.run.exit_code == 2) << tight.run.exit_code << tight.run.error;
  EXPECT_EQ(tight.most_processes, 2U) << "the search, and a plan";
  EXPECT_EQ(groups.oom_kills(), 0);
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

// With AVX-512 the code of products takes some 200 MiB of addresses, and it is made before the plan is compared with the limit.
TEST_F(CliMemoryLimit, AddressSpaceForTheCodeOfProducts) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes address space of its own";
  if (__builtin_cpu_supports("avx512f") == 0) GTEST_SKIP() << "without AVX-512 products have little code";
  bool lacked_code = false;
  for (int64_t limit = 160 * kMebibyte; limit <= 400 * kMebibyte; limit += 16 * kMebibyte) {
    const ProgramRun tried =
        run({"bench", "step", "--model", "bert-mini", "--per_device_train_batch_size", "8",
             "--sequence_length", "512", "--max_steps", "1", "--no_limits", "--num_threads", "2"},
            {.address_space_bytes = limit});
    EXPECT_TRUE(tried.exit_code == 0 || tried.exit_code == 2) << limit / kMebibyte << " MiB\n" << tried.error;
    if (tried.exit_code == 2) {
      EXPECT_TRUE(contains(tried.error, "[memory]") && contains(tried.error, "ulimit -v")) << tried.error;
    }
    lacked_code |= contains(tried.error, "for the code of another product");
  }
  EXPECT_TRUE(lacked_code) << "no limit was met where the code is made";
}

}  // namespace
}  // namespace shoehorn
