#include "lab/hardware_multiples.h"
#include "models/registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace shoehorn {
namespace {

MachineProfile machine_of(const std::string& isa, bool bf16_products = false) {
  MachineProfile facts;
  facts.isa = isa;
  facts.bf16_products = bf16_products;
  facts.threads = 6;
  return facts;
}

HardwareMultiple of_this_run(DType operands, const MachineProfile& machine) {
  const std::vector<HardwareMultiple> rows = hardware_multiples(operands, machine);
  EXPECT_EQ(
      std::count_if(rows.begin(), rows.end(), [](const HardwareMultiple& row) { return row.is_this_run; }),
      1);
  return *std::find_if(rows.begin(), rows.end(), [](const HardwareMultiple& row) { return row.is_this_run; });
}

// The multiples that the efficient-training guides cite.
TEST(HardwareMultiples, OfTensorCores) {
  std::map<std::pair<std::string, std::string>, int64_t> found;
  for (const HardwareMultiple& row : hardware_multiples(DType::kF32, machine_of("AVX2")))
    found[{row.dtype, row.device}] = row.multiple;
  EXPECT_EQ((found[{"fp16", "Tensor Cores"}]), 8);
  EXPECT_EQ((found[{"fp16", "Tensor Cores of an A100"}]), 64);
  EXPECT_EQ((found[{"int8", "Tensor Cores"}]), 16);
  EXPECT_EQ((found[{"tf32", "Tensor Cores"}]), 4);
  EXPECT_EQ((found[{"fp64", "Tensor Cores"}]), 2);
  EXPECT_EQ(found.size(), 8U);
}

// A vector has 32 or 64 bytes; what has no product of its own is multiplied as fp32.
TEST(HardwareMultiples, OfThisRun) {
  EXPECT_EQ(of_this_run(DType::kF32, machine_of("AVX2")).multiple, 8);
  EXPECT_EQ(of_this_run(DType::kF32, machine_of("AVX-512")).multiple, 16);
  EXPECT_EQ(of_this_run(DType::kBF16, machine_of("AVX-512")).multiple, 16);
  EXPECT_EQ(of_this_run(DType::kBF16, machine_of("AVX-512 with BF16", true)).multiple, 32);
  EXPECT_EQ(of_this_run(DType::kF16, machine_of("AVX-512 with BF16", true)).multiple, 16);
  EXPECT_EQ(of_this_run(DType::kF16, machine_of("AVX2")).dtype, "fp16");
  EXPECT_NE(of_this_run(DType::kBF16, machine_of("AVX2")).device.find("as fp32"), std::string::npos);
}

Device gpu(const std::string& name, const std::map<std::string, double>& figures) {
  return {.name = name, .title = name, .is_gpu = true, .figures = figures};
}

// GPT-2's vocabulary of 50257, which its own users pad to 50304.
TEST(HardwareMultiples, OfAMachineOfTheCatalogue) {
  const Device a100 = gpu("a100-80gb", {{"tfloat32", 1}, {"bfloat16", 1}, {"float16", 1}});
  const Device v100 = gpu("v100-16gb", {{"float32", 1}, {"float16", 1}});
  const std::vector<NamedSize> gpt2 = model_of_shape("gpt2")->product_sizes();
  const auto notice = [&](DType operands, const Device& device) {
    return disliked_sizes_notice(hardware_multiples(operands, device), gpt2);
  };
  EXPECT_EQ(
      notice(DType::kBF16, a100),
      "Products like sizes that are multiples of 64 (Tensor Cores of an A100), which these are not: vocabulary 50257 "
      "(next: 50304)");
  EXPECT_EQ(notice(DType::kF16, a100), notice(DType::kBF16, a100));
  EXPECT_EQ(
      notice(DType::kF32, a100),
      "Products like sizes that are multiples of 4 (Tensor Cores), which these are not: vocabulary 50257 (next: 50260)");
  EXPECT_EQ(
      notice(DType::kF16, v100),
      "Products like sizes that are multiples of 8 (Tensor Cores), which these are not: vocabulary 50257 (next: 50264)");
  EXPECT_EQ(notice(DType::kF32, v100), "");
  EXPECT_EQ(notice(DType::kBF16, v100), "");
  EXPECT_EQ(notice(DType::kF32, {.name = "epyc", .figures = {{"float32", 1}}}), "");
}

TEST(HardwareMultiples, NoticeHasEachSizeThatIsNoMultiple) {
  const std::vector<HardwareMultiple> multiples = hardware_multiples(DType::kF32, machine_of("AVX-512"));
  EXPECT_EQ(
      disliked_sizes_notice(multiples, {{"hidden", 1024}, {"head", 20}, {"vocabulary", 30522}}),
      "Products like sizes that are multiples of 16 (this processor's vectors, AVX-512), which these are not: head 20 "
      "(next: 32), vocabulary 30522 (next: 30528)");
  EXPECT_EQ(disliked_sizes_notice(multiples, {{"hidden", 1024}}), "");
}

TEST(HardwareMultiples, SizesOfAModel) {
  const std::vector<HardwareMultiple> multiples =
      hardware_multiples(DType::kBF16, machine_of("AVX-512 with BF16", true));
  std::vector<NamedSize> sizes = model_of_shape("bert-large")->product_sizes();
  sizes.push_back({"3 x 20 tokens", 60});
  const std::vector<std::vector<std::string>> rows = sizes_table(multiples, sizes).rows;
  EXPECT_EQ(rows[0], (std::vector<std::string>{"hidden", "1024", "yes"}));
  EXPECT_EQ(rows[1], (std::vector<std::string>{"feed-forward", "4096", "yes"}));
  EXPECT_EQ(rows[2], (std::vector<std::string>{"head", "64", "yes"}));
  EXPECT_EQ(rows[3][1], "30522");
  EXPECT_EQ(rows[3][2], "no; 30528 is the next");
  EXPECT_EQ(rows[4], (std::vector<std::string>{"3 x 20 tokens", "60", "no; 64 is the next"}));
  const nlohmann::ordered_json json = sizes_to_json(multiples, sizes);
  EXPECT_EQ(json[0]["is_multiple"], true);
  EXPECT_EQ(json[3]["is_multiple"], false);
  EXPECT_EQ(json[3]["next_multiple"], 30528);
  EXPECT_EQ(json[4]["multiple"], 32);
}

TEST(HardwareMultiples, TableMarksThisRun) {
  const TextTable table = multiples_table(hardware_multiples(DType::kF16, machine_of("AVX2")));
  for (size_t at = 0; at < table.rows.size(); ++at)
    EXPECT_EQ(table.rows[at][3], at + 1 == table.rows.size() ? "yes" : "") << at;
  EXPECT_NE(quantisation_text(6).find("to 6 threads"), std::string::npos);
}

}  // namespace
}  // namespace shoehorn
