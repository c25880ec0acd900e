#include "state/resume_state.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json_file.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

using nlohmann::json;

ResumeState full_state() {
  return {.identity = {.training_samples = 28,
                       .training_data = "00000000aa",
                       .evaluation_data = "11111111aa",
                       .companions = {{"vocab.txt", "22222222aa"}, {std::string("a\0b", 3), "3"}},
                       .base_weights = "33333333aa",
                       .machine = "AVX2, a library"},
          .position = {.applied_updates = 6,
                       .skipped_steps = 1,
                       .samples_consumed = 55,
                       .loss_since_log = 0.1,
                       .last_logged_step = 5,
                       .loss_total = 1e-300,
                       .nonfinite_losses = 1,
                       .plateau = PlateauState{.learning_rate = 1e-4,
                                               .best = -std::numeric_limits<double>::infinity(),
                                               .bad_evaluations = 3,
                                               .cooldown_left = 2},
                       .due = TrainerControl{.should_evaluate = true, .should_save = true},
                       .is_epoch_ended = false,
                       .skipped_in_epochs = 3},
          .loss_scale = LossScaleValues{.scale = 65536, .applied_in_row = 3, .overflows_to_go = 2}};
}

std::string refusal(const json& object) {
  return message_of<UserError>([&] { resume_state_from_json(object, "state.json"); });
}

TEST(ResumeState, ReadsBackTheSame) {
  const ResumeState state = full_state();
  // Through text, as a checkpoint has it.
  const ResumeState read =
      resume_state_from_json(parse_json(format_json(to_json(state)), "written"), "written");
  EXPECT_EQ(read.identity, state.identity);
  EXPECT_EQ(read.position.plateau, state.position.plateau);
  EXPECT_EQ(read.position.due, state.position.due);
  EXPECT_FALSE(read.position.is_epoch_ended);
  EXPECT_EQ(read.position.skipped_in_epochs, 3);
  ASSERT_TRUE(read.loss_scale.has_value());
  EXPECT_EQ(read.loss_scale->scale, 65536);
  EXPECT_EQ(to_json(read), to_json(state));
}

// What a key that a shoehorn writes cannot do without, key by key; and each of another type.
TEST(ResumeState, EveryKeyOfAnotherTypeIsRefusedByName) {
  const json good = to_json(full_state());
  int64_t tried = 0;
  for (const auto& [section, content] : good.items()) {
    for (const auto& [key, value] : content.items()) {
      json wrong = good;
      wrong[section][key] = value.is_string() ? json(3) : json("three");
      EXPECT_TRUE(contains(refusal(wrong), "state.json: " + section)) << section << " " << key;
      EXPECT_TRUE(contains(refusal(wrong), key)) << section << " " << key;
      ++tried;
    }
  }
  EXPECT_EQ(tried, 6 + 9 + 4 + 5 + 3);
}

TEST(ResumeState, NumbersBeyondTheirRangeAreRefused) {
  const auto with = [](const char* section, const char* key, const json& value) {
    json state = to_json(full_state());
    state[section][key] = value;
    return state;
  };
  EXPECT_TRUE(contains(refusal(with("loss_scale", "scale", 1e300)), "within its range"));
  EXPECT_TRUE(contains(refusal(with("loss_scale", "scale", 0)), "a scale above 0"));
  EXPECT_TRUE(contains(refusal(with("loss_scale", "applied_in_row", int64_t{1} << 31)), "a whole number"));
  EXPECT_TRUE(contains(refusal(with("position", "applied_updates", 1e3)), "a whole number"));
  EXPECT_TRUE(contains(refusal(with("reduce_lr_on_plateau", "learning_rate", -1)), "0 or more"));
}

TEST(ResumeState, OlderCheckpointsLeaveMembersEmpty) {
  json old = to_json(full_state());
  for (const char* section : {"identity", "loss_scale", "reduce_lr_on_plateau", "due"}) old.erase(section);
  for (const char* key : {"skipped_steps", "is_epoch_ended", "skipped_in_epochs"}) old["position"].erase(key);
  old["position"]["training_samples"] = 28;
  const ResumeState state = resume_state_from_json(old, "state.json");
  EXPECT_EQ(state.identity, (RunIdentity{.training_samples = 28}));
  EXPECT_EQ(state.position.skipped_steps, 0);
  EXPECT_FALSE(state.loss_scale.has_value());
  EXPECT_FALSE(state.position.plateau.has_value());
  EXPECT_FALSE(state.position.due.has_value());
  EXPECT_TRUE(state.position.is_epoch_ended) << "they did not say, and it was not made up for";
  EXPECT_TRUE(contains(refusal(json::array()), "an object 'position'"));
}

}  // namespace
}  // namespace shoehorn
