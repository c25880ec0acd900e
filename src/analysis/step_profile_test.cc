#include "analysis/step_profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "io/json_file.h"
#include "io/test_directory.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

// Times in the file are rounded to a thousandth of a microsecond.
constexpr double kRounding = 0.002;

struct Profiled {
  nlohmann::json events;
  int64_t nodes_in_step = 0;
};

Profiled profile_of(TrainingArguments args) {
  const TestDirectory directory;
  args.output_dir = directory.path().string();
  const BertForSequenceClassification model(tiny_bert());
  Trainer trainer(model, args, tiny_samples(64, 5), tiny_samples(9, 6));
  trainer.train();
  Profiled profiled{read_json(directory.path() / "profile.json").at("traceEvents"), 0};
  for (const Program& program : trainer.session().family().programs) {
    const int64_t calls = trainer.session().calls_in_step(program);
    profiled.nodes_in_step += calls * static_cast<int64_t>(program.nodes().size());
  }
  EXPECT_EQ(trainer.profile()->recorded_steps(), std::min(args.profile, args.max_steps - 1));
  return profiled;
}

double begin_of(const nlohmann::json& slice) {
  return slice.at("ts").get<double>();
}
double end_of(const nlohmann::json& slice) {
  return begin_of(slice) + slice.at("dur").get<double>();
}

std::vector<nlohmann::json> slices(const nlohmann::json& events,
                                   const std::function<bool(const nlohmann::json&)>& is) {
  std::vector<nlohmann::json> found;
  for (const nlohmann::json& event : events) {
    if (event.at("ph") == "X" && is(event)) found.push_back(event);
  }
  return found;
}

bool lies_in(const nlohmann::json& inner, const std::vector<nlohmann::json>& outer) {
  return std::any_of(outer.begin(), outer.end(), [&](const nlohmann::json& slice) {
    return begin_of(inner) >= begin_of(slice) - kRounding && end_of(inner) <= end_of(slice) + kRounding;
  });
}

class StepProfileTest : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Accumulation, StepProfileTest, testing::Values(1, 3));

TEST_P(StepProfileTest, SlicesNestAndNodesFillTheirPrograms) {
  TrainingArguments args = quiet_arguments(4);
  args.gradient_accumulation_steps = GetParam();
  args.max_steps = 5;
  args.profile = 3;
  args.eval_strategy = "steps";
  args.eval_steps = 1;
  const Profiled profiled = profile_of(args);
  const auto of_category = [&](const char* name) {
    return slices(profiled.events, [&](const nlohmann::json& e) { return e.at("cat") == name; });
  };
  const auto steps = of_category("step");
  const auto runs = of_category("program");
  const auto host = of_category("host");
  const auto nodes = slices(profiled.events, [](const nlohmann::json& e) { return e.at("tid") == 1; });
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[0].at("name"), "step 2") << "the first step is not profiled";
  EXPECT_EQ(static_cast<int64_t>(nodes.size()), 3 * profiled.nodes_in_step);
  for (const auto& slice : runs) EXPECT_TRUE(lies_in(slice, steps)) << slice;
  for (const auto& slice : host) EXPECT_TRUE(lies_in(slice, steps)) << slice;
  for (const auto& slice : nodes) EXPECT_TRUE(lies_in(slice, runs)) << slice;
  std::set<std::string> works;
  for (const auto& slice : host) works.insert(slice.at("name").get<std::string>());
  EXPECT_EQ(works, (std::set<std::string>{"data_wait", "evaluation", "logging"}));
  // Nodes of a program follow each other without a gap, so they add up to it.
  double in_runs = 0;
  double in_nodes = 0;
  double in_steps = 0;
  for (const auto& slice : runs) in_runs += slice.at("dur").get<double>();
  for (const auto& slice : nodes) in_nodes += slice.at("dur").get<double>();
  for (const auto& slice : steps) in_steps += slice.at("dur").get<double>();
  EXPECT_NEAR(in_nodes, in_runs, kRounding * static_cast<double>(nodes.size()));
  EXPECT_LE(in_runs, in_steps + kRounding);
}

TEST(StepProfile, NamesThePassThatMadeOrMovedANode) {
  TrainingArguments args = quiet_arguments(4);
  args.max_steps = 2;
  args.profile = 1;
  args.lora_rank = 2;
  args.max_grad_norm = 0;
  args.update_in_backward = true;
  const auto passes = [&] {
    std::set<std::string> names;
    for (const auto& slice :
         slices(profile_of(args).events, [](const nlohmann::json& e) { return e.at("tid") == 1; }))
      names.insert(slice.at("args").at("pass").get<std::string>());
    return names;
  };
  const std::set<std::string> plain = passes();
  for (const char* name : {"model", "lora", "gather_early", "fuse_attention", "fuse_residual_norm",
                           "fuse_bias", "backward", "update_in_backward"})
    EXPECT_TRUE(plain.contains(name)) << name;
  EXPECT_FALSE(plain.contains("recompute"));
  EXPECT_FALSE(plain.contains("update")) << "all were moved";
  args.gradient_checkpointing = true;
  EXPECT_TRUE(passes().contains("recompute"));
}

TEST(StepProfile, ARunShorterThanTheProfileGivesWhatThereIs) {
  TrainingArguments args = quiet_arguments(4);
  args.max_steps = 2;
  args.profile = 5;
  EXPECT_GT(profile_of(args).events.size(), 0U);
}

TEST(StepProfile, FlopsAreThoseOfTheCountsThatRan) {
  const BertForSequenceClassification model(tiny_bert());
  SessionOptions options;
  options.train = {64, 8, 20};
  Session session(model, std::move(options));
  const auto flops_at = [&](int64_t tokens, int64_t sequences) {
    StepProfile profile(session, 1);
    profile.begin_step(2, now_seconds());
    for (NodeTimes& times : profile.begin_run(ProgramId{0}, std::vector<int64_t>{tokens, sequences}))
      times.begin = times.end = now_seconds();
    profile.end_step();
    double flops = 0;
    for (const OpTime& op : profile.by_op()) flops += op.flops;
    const nlohmann::json json = to_json(profile);
    EXPECT_EQ(json.at("steps"), 1);
    EXPECT_DOUBLE_EQ(json.at("seconds").get<double>(), profile.recorded_seconds());
    double in_json = 0;
    for (const nlohmann::json& op : json.at("ops")) in_json += op.at("flops").get<double>();
    EXPECT_DOUBLE_EQ(in_json, flops);
    return flops;
  };
  EXPECT_DOUBLE_EQ(flops_at(64, 8), session.step_flops());
  EXPECT_LT(flops_at(16, 2), flops_at(64, 8));
}

TEST(StepProfile, RecordsWithoutAllocating) {
  const BertForSequenceClassification model(tiny_bert());
  SessionOptions options;
  options.train = {64, 8, 20};
  Session session(model, std::move(options));
  StepProfile profile(session, 2);
  const int64_t reserved = profile.reserved_bytes();
  const std::vector<int64_t> counts = {64, 8};
  for (int64_t step = 0; step < 4; ++step) {  // two more than there is room for
    profile.begin_step(step, now_seconds());
    profile.host_work(HostWork::kDataWait, 0, 1);
    for (NodeTimes& times : profile.begin_run(ProgramId{0}, counts)) times.begin = times.end = now_seconds();
    for (int i = 0; i < 50; ++i) profile.host_work(HostWork::kLogging, 0, 1);
    profile.end_step();
  }
  EXPECT_EQ(profile.reserved_bytes(), reserved) << "no vector has grown";
  EXPECT_EQ(profile.recorded_steps(), 2);
}

}  // namespace
}  // namespace shoehorn
