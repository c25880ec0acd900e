#include "plan/device_catalog.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/error_testing.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using nlohmann::json;

std::filesystem::path catalog() {
  return std::filesystem::path(SHOEHORN_SOURCE_DIR) / "devices";
}

TEST(DeviceCatalogTest, EveryFileIsInTheForm) {
  const std::vector<Device> devices = load_devices(catalog());
  for (const char* name : {"a100", "h100", "h200", "b200", "l4", "l40s", "4090", "5090", "v100", "t4",
                           "xeon-8380", "epyc-9654"}) {
    const Device device = find_device(devices, name, "--machine_profile");
    EXPECT_GE(device.peak_flops(DType::kBF16), device.peak_flops(DType::kF32)) << name;
    EXPECT_GT(device.figure("bandwidth"), 1e11) << name;
  }
  for (const auto& entry : std::filesystem::directory_iterator(catalog())) {
    if (entry.path().filename() == "README.md") continue;
    EXPECT_EQ(read_json(entry.path())["name"], entry.path().stem().string())
        << "a file has its device's name";
  }
  EXPECT_NE(refusal_of([&] { find_device(devices, "a101", "--machine_profile"); }).find("a100-80gb"),
            std::string::npos);
}

TEST(DeviceCatalogTest, ANameMayBeShortAndInAnyCase) {
  const std::vector<Device> devices = load_devices(catalog());
  const auto found = [&](const char* name) { return find_device(devices, name, "--machine_profile").name; };
  for (const char* name : {"A100", "a100-80gb", "A100 80GB", "a100-80", "NVIDIA A100-80GB", "A100_80GB"})
    EXPECT_EQ(found(name), "a100-80gb") << name;
  EXPECT_EQ(found("A100-40GB"), "a100-40gb");
  EXPECT_EQ(found("H-100"), "h100");
  EXPECT_EQ(found("L40S"), "l40s");
  for (const char* name : {"RTX4090", "rtx 4090", "NVIDIA GeForce RTX 4090", "4090"})
    EXPECT_EQ(found(name), "rtx-4090") << name;
  EXPECT_EQ(found("9654"), "epyc-9654");
  EXPECT_EQ(found("AMD EPYC 9654"), "epyc-9654");
  for (const char* name : {"7950X", "Ryzen 9 7950X", "ryzen-7950x"})
    EXPECT_EQ(found(name), "ryzen-7950x") << name;
  EXPECT_EQ(found("Xeon Platinum 8480+"), "xeon-8480");
  const auto refusal = [&](const char* name) { return refusal_of([&] { found(name); }); };
  EXPECT_TRUE(contains(refusal("epyc"), "got 'epyc'; it may be epyc-7763 or epyc-9654")) << refusal("epyc");
  EXPECT_TRUE(contains(refusal("h10"), "did you mean h100?")) << refusal("h10");
  EXPECT_TRUE(contains(refusal("L40"), "did you mean")) << "an L40 is another device than an L4 or L40S";
  EXPECT_TRUE(contains(refusal("nvidia"), "expected a file")) << "a maker is no device";
}

TEST(DeviceCatalogTest, TypesThatADeviceDoesNotMultiplyAreFp32) {
  const std::vector<Device> devices = load_devices(catalog());
  const Device v100 = find_device(devices, "v100", "");
  EXPECT_EQ(v100.peak_flops(DType::kBF16), v100.peak_flops(DType::kF32));
  EXPECT_EQ(v100.peak_flops(DType::kF16), 125e12);
  const OtherMachine machine = machine_of(v100);
  EXPECT_EQ(machine.available_memory_bytes, 16'000'000'000);
  EXPECT_FALSE(machine.profile.device_is_host);
}

TEST(DeviceCatalogTest, AnotherFormIsRefused) {
  const json good = read_json(catalog() / "a100-80gb.json");
  EXPECT_EQ(device_from_json(good, "file").name, "a100-80gb");
  const std::vector<std::pair<const char*, json>> changes = {
      {"/format", 2},
      {"/kind", "tpu"},
      {"/price", 1},
      {"/sources", "sheet"},
      {"/figures/float32/value", 0},
      {"/figures/float32/unit", "bytes"},
      {"/figures/float32/source", 1},
      {"/figures/float64", good["figures"]["float32"]}};
  for (const auto& [place, value] : changes) {
    json changed = good;
    changed[json::json_pointer(place)] = value;
    EXPECT_TRUE(refusal_of([&] { device_from_json(changed, "file"); }).starts_with("[file: ")) << place;
  }
  for (const char* key : {"name", "sources", "figures", "aliases"}) {
    json changed = good;
    changed.erase(key);
    EXPECT_TRUE(refusal_of([&] { device_from_json(changed, "file"); }).starts_with("[file: ")) << key;
  }
  json changed = good;
  changed["figures"].erase("memory");
  EXPECT_NE(refusal_of([&] { device_from_json(changed, "file"); }).find("memory"), std::string::npos);
}

}  // namespace
}  // namespace shoehorn
