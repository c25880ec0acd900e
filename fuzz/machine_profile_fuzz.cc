// The file of `plan --machine_profile` (plan/machine_profile.h): a machine that is written reads back the same.
#include "plan/machine_profile.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "fuzz/reader.h"
#include "io/json_file.h"

namespace shoehorn::fuzz {
namespace {

std::string text_of(const OtherMachine& machine) {
  return format_json(to_json(machine, {}, "machine"));
}

void fuzz_machine_profile(std::string_view input) {
  const OtherMachine machine = other_machine_from_json(parse_json(input, "machine.json"), "machine.json");
  CHECK(machine.profile.threads > 0, "a team of nobody");
  const std::string text = text_of(machine);
  CHECK(text_of(other_machine_from_json(parse_json(text, "written.json"), "written.json")) == text,
        "another machine");
}

const Registration kMachineProfileReader("machine_profile", fuzz_machine_profile);

}  // namespace
}  // namespace shoehorn::fuzz
