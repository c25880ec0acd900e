// log.jsonl of a run that goes on (train/log_lines.h): lines that are kept are kept again.
#include "base/error.h"
#include "fuzz/reader.h"
#include "train/log_lines.h"

namespace shoehorn::fuzz {
namespace {

constexpr int64_t kStep = 7;

void fuzz_log_lines(std::string_view input) {
  const std::string kept = lines_up_to_step(input, kStep, "log.jsonl");
  CHECK(lines_up_to_step(kept, kStep, "kept.jsonl") == kept, "other lines");
}

const Registration kLogLinesReader("log_lines", fuzz_log_lines);

}  // namespace
}  // namespace shoehorn::fuzz
