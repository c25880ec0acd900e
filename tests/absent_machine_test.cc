// Plans for a machine that is not here: the null backend's bound holds for every kernel of the CPU, and
// `plan --machine_profile` says what it knows and what not.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli_support.h"
#include "exec/backend/thread_count.h"
#include "exec/backends.h"
#include "exec/null/null_backend.h"
#include "io/json_file.h"
#include "models/registry.h"
#include "ops/op_info.h"
#include "passes/pipeline.h"
#include "session/session.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
using nlohmann::json;

// This machine's profile, of `threads` threads and with measurements that nobody made.
OtherMachine machine(int threads) {
  OtherMachine machine{.profile = this_machine(),
                       .limits = {1e12, 2e12, 1e11},
                       .available_memory_bytes = int64_t{1} << 40,
                       .process_overhead_bytes = int64_t{100} << 20};
  machine.profile.threads = threads;
  return machine;
}

struct Family {
  std::string name;
  StepOptions step;
};

std::vector<Family> families() {
  std::vector<Family> all;
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16, Precision::kFloat16}) {
    StepOptions step;
    step.precision = precision;
    const std::string name = std::to_string(static_cast<int>(precision));
    all.push_back({name + " plain", step});
    step.gradient_accumulation_steps = 2;
    step.optimizer.settings = AdafactorSettings{};
    all.push_back({name + " accumulated, adafactor", step});
    step.skip_passes = {"fuse", "fuse_update"};
    step.optimizer.settings = AdamW8bitSettings{};
    all.push_back({name + " unfused, 8 bits", step});
  }
  return all;
}

TEST(AbsentMachine, NoKernelOfTheCpuTakesMoreThanTheBound) {
  const int before = thread_count().threads;
  for (const int threads : {1, 2, 8, 16, 32, 64, 96}) {
    const auto cpu = make_backend(kDefaultBackend, threads);
    const auto bound = make_null_backend(machine(threads));
    for (const auto& [shape, tokens, sequences] :
         {std::tuple{"bert-mini", 512, 4}, std::tuple{"bert-base", 128, 1}, std::tuple{"bert-base", 512, 1},
          std::tuple{"bert-base", 512, 8}}) {
      const auto model = model_of_shape(shape);
      const BatchCapacity capacity{tokens * sequences, sequences, tokens};
      for (const Family& family : families()) {
        const ProgramFamily programs =
            build_programs(*model, RunKind::kTrain, capacity, capacity, family.step);
        for (const Program& program : programs.programs) {
          for (const Node& node : program.nodes()) {
            EXPECT_LE(cpu->workspace_bytes(program, node), bound->workspace_bytes(program, node))
                << op_info(node.kind).name << " of " << program.name() << ", " << shape << ", " << family.name
                << ", " << threads << " threads";
          }
        }
      }
      cpu->release_unused_code();
    }
  }
  use_threads(before);
}

TEST(AbsentMachine, SessionsArePlannedAndNotRun) {
  const auto model = model_of_shape("bert-mini");
  SessionOptions options;
  options.train = {512, 4, 128};
  options.backend = make_backend_for(machine(96));
  Session session(*model, options);
  session.compile();
  EXPECT_GT(session.plan().arena_bytes(), 0);
  EXPECT_TRUE(
      contains(message_of<UserError>([&] { session.reserve(); }), "[machine_profile] expected the machine"));
}

class AbsentMachineCli : public CliTest {
 protected:
  std::string profile(const OtherMachine& machine) const {
    return directory_.write("machine.json", to_json(machine, {}, "machine").dump()).string();
  }
  static std::vector<std::string> words(const std::string& file, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"plan", "--model", "bert-mini", "--machine_profile", file};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(AbsentMachineCli, PlanSaysWhatIsABoundAndWhatIsNotKnown) {
  const std::string file = profile(machine(96));
  const ProgramRun text = run(words(file));
  ASSERT_EQ(text.exit_code, 0) << text.error;
  EXPECT_TRUE(contains(text.output, "Planned for another machine"));
  EXPECT_TRUE(contains(text.output, "96 threads"));
  EXPECT_TRUE(contains(text.output, "Workspaces are an upper bound"));
  EXPECT_TRUE(contains(text.output, "not validated"));

  const ProgramRun there = run(words(file, {"--json"}));
  const ProgramRun here = run({"plan", "--model", "bert-mini", "--json"});
  const json plan = parse_json(there.output, "output");
  EXPECT_EQ(plan["machine"]["threads"], 96);
  EXPECT_EQ(plan["machine"]["workspaces"], "upper bound");
  EXPECT_EQ(plan["step_seconds_are"], "lower bound");
  EXPECT_EQ(plan["validated"], false);
  EXPECT_EQ(plan["limit"]["kind"], "other_machine");
  EXPECT_EQ(plan["budget_bytes"], int64_t{1} << 40);
  EXPECT_EQ(plan["process_overhead_bytes"], int64_t{100} << 20);
  EXPECT_EQ(plan["by_role"]["weight"], parse_json(here.output, "output")["by_role"]["weight"]);
  EXPECT_FALSE(parse_json(here.output, "output").contains("machine"));
}

TEST_F(AbsentMachineCli, APlanIsRefusedByTheOtherMachinesMemory) {
  OtherMachine small = machine(96);
  small.available_memory_bytes = small.process_overhead_bytes + (1 << 20);
  expect_failure(words(profile(small)), 2, {"the other machine's memory"});
}

TEST_F(AbsentMachineCli, AProfileOfThisMachineIsThisMachine) {
  const ProgramRun printed = run({"env", "--json"});
  ASSERT_EQ(printed.exit_code, 0) << printed.error;
  const ProgramRun plan = run(words(directory_.write("here.json", printed.output).string(), {"--json"}));
  ASSERT_EQ(plan.exit_code, 0) << plan.error;
  EXPECT_FALSE(parse_json(plan.output, "output").contains("machine"));
}

TEST_F(AbsentMachineCli, ErrorsNameTheFileAndTheKey) {
  expect_failure(words(path("none.json").string()), 2, {"none.json"});
  expect_failure(words(directory_.write("bad.json", "{").string()), 2, {"bad.json"});
  json object = to_json(machine(4), {}, "machine");
  object.erase("isa");
  expect_failure(words(directory_.write("less.json", object.dump()).string()), 2, {"less.json: isa"});
  OtherMachine gpu = machine(4);
  gpu.profile.backend = "cuda";
  expect_failure(words(profile(gpu)), 2, {"[backend] expected one of cpu, got 'cuda'"});
}

}  // namespace
}  // namespace shoehorn
