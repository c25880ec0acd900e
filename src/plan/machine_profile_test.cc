#include "plan/machine_profile.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error_testing.h"

namespace shoehorn {
namespace {

using nlohmann::json;

OtherMachine machine() {
  return {.profile = {.backend = "cpu",
                      .cpu = "A processor",
                      .isa = "AVX-512 with BF16",
                      .products = "oneDNN 2.6.3",
                      .threads = 96,
                      .bf16_products = true,
                      .fp16_products = false,
                      .device_is_host = true},
          .limits = {1e12, 2e12, 1e11},
          .available_memory_bytes = int64_t{1} << 38,
          .process_overhead_bytes = int64_t{90} << 20};
}

json written() {
  const std::vector<ArithmeticPeak> peaks = {{"AVX2 FMA", DType::kF32, true, 1e11, 1e12},
                                             {"AMX bf16 tiles", DType::kBF16, false, 0, 0}};
  return to_json(machine(), peaks, "cgroup");
}

std::string refusal(const json& object) {
  return message_of<UserError>([&] { other_machine_from_json(object, "m.json"); });
}

TEST(MachineProfile, IsReadBackAsItWasWritten) {
  const OtherMachine read = other_machine_from_json(written(), "m.json");
  EXPECT_EQ(read.profile, machine().profile);
  EXPECT_EQ(read.limits.fp32_flops, 1e12);
  EXPECT_EQ(read.limits.bf16_flops, 2e12);
  EXPECT_EQ(read.limits.bytes_per_second, 1e11);
  EXPECT_EQ(read.available_memory_bytes, int64_t{1} << 38);
  EXPECT_EQ(read.process_overhead_bytes, int64_t{90} << 20);
}

TEST(MachineProfile, EveryKeyIsWanted) {
  const json whole = written();
  for (const auto& [name, value] : whole.items()) {
    json object = whole;
    object.erase(name);
    if (name == "arithmetic_peaks" || name == "memory_limit") {
      EXPECT_NO_THROW(other_machine_from_json(object, "m.json")) << "no plan depends on it";
    } else {
      EXPECT_NE(refusal(object).find("[m.json: " + name + "] expected it, got none"), std::string::npos)
          << refusal(object);
    }
  }
}

TEST(MachineProfile, ErrorsNameTheKeyAndWhatItHas) {
  const std::vector<std::tuple<std::string, json, std::string>> cases = {
      {"threads", 0, "[m.json: threads] expected a number from 1 to 65536, got 0"},
      {"threads", 1e9, "[m.json: threads] expected"},
      {"products", 2, "[m.json: products] expected a text, got 2"},
      {"bf16_products", "yes", "[m.json: bf16_products] expected true or false, got \"yes\""},
      {"fp32_flops", 0, "[m.json: fp32_flops] expected a number above 0, got 0"},
      {"available_memory_bytes", -1, "[m.json: available_memory_bytes] expected a whole number, 0 to 2^60"},
      {"process_overhead_bytes", INT64_MAX,
       "[m.json: process_overhead_bytes] expected a whole number, 0 to 2^60"},
      {"gpu", "H100", "[m.json: gpu] expected only the keys that `shoehorn env --json` prints"}};
  for (const auto& [name, value, message] : cases) {
    json object = written();
    object[name] = value;
    EXPECT_NE(refusal(object).find(message), std::string::npos) << refusal(object);
  }
  EXPECT_NE(refusal(json::array()).find("[m.json] expected an object"), std::string::npos);
}

TEST(MachineProfile, TheNameOfTheProcessorDecidesNoPlan) {
  MachineProfile other = machine().profile;
  other.cpu = "Another";
  EXPECT_TRUE(plans_alike(machine().profile, other));
  other.device_is_host = false;
  EXPECT_FALSE(plans_alike(machine().profile, other));
}

}  // namespace
}  // namespace shoehorn
