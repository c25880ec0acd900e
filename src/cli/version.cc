#include "cli/version.h"

#define PCRE2_CODE_UNIT_WIDTH 8

#include <dnnl.h>
#include <fmt/format.h>
#include <pcre2.h>
#include <utf8proc.h>
#include <xxhash.h>

#include <array>
#include <nlohmann/json.hpp>

#include "cli/commit.h"

namespace shoehorn {

namespace {

// Of libraries that are found when the program starts: what was found. Of headers: what it was built with.
nlohmann::ordered_json library_versions() {
  const dnnl_version_t* onednn = dnnl_version();
  std::array<char, 64> pcre2 = {};
  pcre2_config(PCRE2_CONFIG_VERSION, pcre2.data());
  const unsigned xxhash = XXH_versionNumber();
  return {{"oneDNN", fmt::format("{}.{}.{}", onednn->major, onednn->minor, onednn->patch)},
          {"Highway", SHOEHORN_HIGHWAY_VERSION},
          {"OpenMP", fmt::format("{}", _OPENMP)},
          {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
          {"nlohmann-json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                        NLOHMANN_JSON_VERSION_PATCH)},
          {"pcre2", pcre2.data()},
          {"utf8proc", utf8proc_version()},
          {"xxhash", fmt::format("{}.{}.{}", xxhash / 10000, xxhash / 100 % 100, xxhash % 100)}};
}

std::string compiler() {
#if defined(__clang__)
  return fmt::format("Clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("GCC {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

}  // namespace

std::string program_version() {
  return SHOEHORN_VERSION;
}

std::string commit_date() {
  return kCommitDate;
}

nlohmann::ordered_json version_json() {
  return {{"version", program_version()},
          {"commit", kCommit},
          {"commit_date", commit_date()},
          {"compiler", compiler()},
          {"libraries", library_versions()}};
}

std::string format_version() {
  const nlohmann::ordered_json version = version_json();
  std::string text = fmt::format("shoehorn {} (commit {}{}{})\n", program_version(), kCommit,
                                 commit_date().empty() ? "" : " of ", commit_date());
  const auto row = [&text](const std::string& what, const std::string& value) {
    text += fmt::format("  {:<14}{}\n", what, value);
  };
  row("compiler", compiler());
  for (const auto& [name, value] : version["libraries"].items()) row(name, value.get<std::string>());
  return text;
}

}  // namespace shoehorn
