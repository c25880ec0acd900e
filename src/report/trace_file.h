// Writes trace events for Perfetto (ui.perfetto.dev) and chrome://tracing: slices on threads, and counters
// over time. The format is the JSON object format of "Trace Event Format" (Chromium, 2016).
//
//   TraceFile trace("profile.json");
//   trace.name_thread(0, "host");
//   trace.add_slice({.name = "step 2", .category = "step", .thread = 0, .start_seconds = 0, .seconds = 0.4});
//   trace.commit();
//
// The file appears at commit(), complete. Times are written in microseconds with three decimals.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "io/file.h"

namespace shoehorn {

using TraceArguments =
    std::vector<std::pair<std::string_view, std::variant<int64_t, double, std::string_view>>>;

struct TraceSlice {
  std::string_view name = {};
  std::string_view category = {};
  int64_t thread = 0;
  double start_seconds = 0;
  double seconds = 0;
  TraceArguments arguments = {};
};

class TraceFile {
 public:
  explicit TraceFile(const std::filesystem::path& path);

  void name_process(std::string_view name);
  void name_thread(int64_t thread, std::string_view name);
  void add_slice(const TraceSlice& slice);
  // Adds values that are stacked in one track.
  void add_counter(std::string_view name, double at_seconds, const TraceArguments& values);
  void commit();

 private:
  void add(const std::string& event);

  AtomicFile file_;
  bool is_empty_ = true;
};

}  // namespace shoehorn
