#include "lab/error_report.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/user_error_kinds.h"

namespace shoehorn {

namespace {

using Json = nlohmann::json;

constexpr std::array<std::pair<ErrorKind, std::string_view>, 4> kNames = {
    {{ErrorKind::kDoesNotFit, "does_not_fit"},
     {ErrorKind::kNotInThisVersion, "not_in_this_version"},
     {ErrorKind::kUser, "user"},
     {ErrorKind::kOther, "other"}}};

bool reports_as_json() {
  const size_t equals = kErrorsAsJson.find('=');
  const char* value = std::getenv(std::string(kErrorsAsJson.substr(0, equals)).c_str());
  return value != nullptr && value == kErrorsAsJson.substr(equals + 1);
}

}  // namespace

ErrorReport report_of(const std::exception& error) {
  ErrorReport report{.message = error.what()};
  const bool is_ours = dynamic_cast<const UserError*>(&error) != nullptr ||
                       dynamic_cast<const SystemError*>(&error) != nullptr ||
                       dynamic_cast<const InternalError*>(&error) != nullptr;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    report.message =
        "[memory] expected more for what the files and flags ask for, got no more from the system";
  } else if (!is_ours) {
    report.message = fmt::format(
        "[internal] expected an error with a message of ours, got '{}'; please report it", error.what());
  }
  if (dynamic_cast<const DoesNotFit*>(&error) != nullptr)
    report.kind = ErrorKind::kDoesNotFit;
  else if (dynamic_cast<const NotInThisVersion*>(&error) != nullptr)
    report.kind = ErrorKind::kNotInThisVersion;
  else if (dynamic_cast<const UserError*>(&error) != nullptr)
    report.kind = ErrorKind::kUser;
  return report;
}

int exit_code_of(ErrorKind kind) {
  return kind == ErrorKind::kOther ? 1 : 2;
}

std::string format_error(const ErrorReport& report) {
  constexpr size_t kMaxBytes = 8000;
  if (!reports_as_json()) return fmt::format("error: {}\n", printable(report.message, kMaxBytes));
  const auto name = std::find_if(kNames.begin(), kNames.end(),
                                 [&report](const auto& known) { return known.first == report.kind; });
  // Names of files in a message may hold any bytes.
  return Json{{"error", report.message}, {"kind", name->second}}.dump(-1, ' ', false,
                                                                      Json::error_handler_t::replace) +
         "\n";
}

bool read_error(const std::string& standard_error, ErrorReport& report) {
  bool is_found = false;
  std::istringstream lines(standard_error);
  for (std::string line; std::getline(lines, line);) {
    const Json object = Json::parse(line, nullptr, false);
    if (!object.is_object() || !object.contains("error") || !object["error"].is_string()) continue;
    const auto kind = std::find_if(kNames.begin(), kNames.end(), [&object](const auto& known) {
      return object.value("kind", Json()) == known.second;
    });
    if (kind == kNames.end()) continue;
    report = {kind->first, object["error"].get<std::string>()};
    is_found = true;
  }
  return is_found;
}

}  // namespace shoehorn
