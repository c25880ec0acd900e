#include "report/trace_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

TEST(TraceFileTest, HoldsWhatWasAdded) {
  const TestDirectory directory;
  const auto path = directory.path() / "profile.json";
  {
    TraceFile trace(path);
    trace.name_process("shoehorn");
    trace.name_thread(1, "lane \"0\"");
    trace.add_slice(
        {"matmul", "forward", 1, 0.25, 0.125, {{"flops", 1e9}, {"layer", int64_t{3}}, {"op", "x\xFF"}}});
    trace.add_slice({.arguments = {{"share", std::nan("")}}});
    trace.add_counter("memory", 0.5, {{"weight", int64_t{12}}});
    EXPECT_FALSE(std::filesystem::exists(path)) << "complete or absent";
    trace.commit();
  }
  const nlohmann::json events = read_json(path).at("traceEvents");
  ASSERT_EQ(events.size(), 5U);
  EXPECT_EQ(events[1].at("args").at("name"), "lane \"0\"");
  EXPECT_EQ(events[2].at("ph"), "X");
  EXPECT_EQ(events[2].at("ts"), 250000.0);
  EXPECT_EQ(events[2].at("dur"), 125000.0);
  EXPECT_EQ(events[2].at("args").at("layer"), 3);
  EXPECT_EQ(events[2].at("args").at("flops"), 1e9);
  EXPECT_TRUE(events[3].at("args").at("share").is_null());
  EXPECT_EQ(events[4].at("ph"), "C");
  EXPECT_EQ(events[4].at("args").at("weight"), 12);
}

TEST(TraceFileTest, WithoutEventsIsStillJson) {
  const TestDirectory directory;
  TraceFile trace(directory.path() / "empty.json");
  trace.commit();
  EXPECT_TRUE(read_json(directory.path() / "empty.json").at("traceEvents").empty());
}

}  // namespace
}  // namespace shoehorn
