// trainer_state.json (state/trainer_state.h): a state that is written reads back the same.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "fuzz/reader.h"
#include "io/json_file.h"
#include "state/trainer_state.h"

namespace shoehorn::fuzz {
namespace {

std::string text_of(const TrainerState& state) {
  return format_json(to_json(state));
}

void fuzz_trainer_state(std::string_view input) {
  TrainerState state = trainer_state_from_json(parse_json(input, "trainer_state.json"), "trainer_state.json");
  const std::string text = text_of(state);
  CHECK(text_of(trainer_state_from_json(parse_json(text, "written.json"), "written.json")) == text,
        "another state");
  // What a run does first with a state that it goes on from.
  const TrainingArguments arguments{.save_strategy = "steps", .eval_strategy = "steps"};
  decide_after_step(arguments, state);
  decide_after_epoch(arguments, state);
}

const Registration kTrainerStateReader("trainer_state", fuzz_trainer_state);

}  // namespace
}  // namespace shoehorn::fuzz
