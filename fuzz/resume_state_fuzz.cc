// shoehorn_state.json (state/resume_state.h): a state that is written reads back the same.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "fuzz/reader.h"
#include "io/json_file.h"
#include "state/resume_state.h"

namespace shoehorn::fuzz {
namespace {

std::string text_of(const ResumeState& state) {
  return format_json(to_json(state));
}

void fuzz_resume_state(std::string_view input) {
  const ResumeState state =
      resume_state_from_json(parse_json(input, "shoehorn_state.json"), "shoehorn_state.json");
  const std::string text = text_of(state);
  CHECK(text_of(resume_state_from_json(parse_json(text, "written.json"), "written.json")) == text,
        "another state");
}

const Registration kResumeStateReader("resume_state", fuzz_resume_state);

}  // namespace
}  // namespace shoehorn::fuzz
