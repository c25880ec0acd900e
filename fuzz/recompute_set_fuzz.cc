// The file of --recompute_set (passes/recompute_set.h): names that are written are read back the same.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "fuzz/reader.h"
#include "io/json_file.h"
#include "passes/recompute_set.h"

namespace shoehorn::fuzz {
namespace {

void fuzz_recompute_set(std::string_view input) {
  static const InputDirectory directory;
  const std::set<std::string> names = load_recompute_set(directory.write("set.json", input));
  const std::string text = format_json(nlohmann::json{{"recompute_set", names}});
  CHECK(load_recompute_set(directory.write("written.json", text)) == names, "other names");
}

const Registration kRecomputeSetReader("recompute_set", fuzz_recompute_set);

}  // namespace
}  // namespace shoehorn::fuzz
