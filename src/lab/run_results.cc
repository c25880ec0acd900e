#include "lab/run_results.h"

#include <optional>

#include "base/error.h"
#include "io/json_file.h"

namespace shoehorn {

namespace {

UserError wrong(const std::filesystem::path& file, const nlohmann::json& results, const char* name,
                const char* expected) {
  return user_error("[{}: {}] expected {}, got {}", file.string(), name, expected,
                    results.is_object() && results.contains(name) ? results[name].dump() : "nothing");
}

}  // namespace

RunResults::RunResults(const std::filesystem::path& output_dir)
    : file_(output_dir / "all_results.json"), results_(read_json(file_)) {}

double RunResults::number(const char* name) const {
  const auto found = results_.find(name);
  if (found == results_.end() || !found->is_number()) throw wrong(file_, results_, name, "a number");
  return found->get<double>();
}

int64_t RunResults::bytes(const char* name) const {
  const auto found = results_.find(name);
  const std::optional<int64_t> whole = found == results_.end() ? std::nullopt : whole_number(*found);
  if (!whole || *whole < 0) throw wrong(file_, results_, name, "a number of bytes");
  return *whole;
}

}  // namespace shoehorn
