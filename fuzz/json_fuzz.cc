// JSON (io/json_file.h): a value is written as it was read.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "fuzz/reader.h"
#include "io/json_file.h"

namespace shoehorn::fuzz {
namespace {

void fuzz_json(std::string_view input) {
  const nlohmann::json value = parse_json(input, "input.json");
  const std::string text = format_json(value);
  CHECK(format_json(parse_json(text, "written.json")) == text, "another value is written than was read");
  const std::string line = format_json(value, {.indent = -1, .ensure_ascii = false});
  CHECK(format_json(parse_json(line, "written.json")) == text, "one line is another value");
}

const Registration kJsonReader("json", fuzz_json);

}  // namespace
}  // namespace shoehorn::fuzz
