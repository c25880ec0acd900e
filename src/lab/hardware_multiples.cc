#include "lab/hardware_multiples.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/rounding.h"

namespace shoehorn {

namespace {

constexpr int64_t kVectorBytes = 64;      // of AVX-512
constexpr int64_t kHalfVectorBytes = 32;  // of AVX2

// Null if no row is this run's.
const HardwareMultiple* row_of_this_run(const std::vector<HardwareMultiple>& multiples) {
  const auto found = std::find_if(multiples.begin(), multiples.end(),
                                  [](const HardwareMultiple& row) { return row.is_this_run; });
  return found == multiples.end() ? nullptr : &*found;
}

int64_t multiple_of_this_run(const std::vector<HardwareMultiple>& multiples) {
  const HardwareMultiple* row = row_of_this_run(multiples);
  CHECK(row != nullptr, "no row is this run's");
  return row->multiple;
}

std::vector<HardwareMultiple> tensor_core_multiples() {
  return {{"fp16", "Tensor Cores", 8},
          {"fp16", "Tensor Cores of an A100", 64},
          {"int8", "Tensor Cores", 16},
          {"tf32", "Tensor Cores", 4},
          {"fp64", "Tensor Cores", 2}};
}

}  // namespace

std::vector<HardwareMultiple> hardware_multiples(DType operands, const MachineProfile& machine) {
  const int64_t bytes = machine.isa.starts_with("AVX-512") ? kVectorBytes : kHalfVectorBytes;
  const std::string vectors = fmt::format("this processor's vectors, {}", machine.isa);
  const std::string panels = vectors + ", as fp32";
  const int64_t of_fp32 = bytes / dtype_bytes(DType::kF32);
  const int64_t of_bf16 = bytes / dtype_bytes(DType::kBF16);
  const bool is_bf16 = operands == DType::kBF16;
  const bool is_fp16 = operands == DType::kF16;
  std::vector<HardwareMultiple> rows = tensor_core_multiples();
  rows.push_back({"fp32", vectors, of_fp32, !is_bf16 && !is_fp16});
  rows.push_back(
      {"bf16", machine.bf16_products ? vectors : panels, machine.bf16_products ? of_bf16 : of_fp32, is_bf16});
  rows.push_back({"fp16", panels, of_fp32, is_fp16});
  return rows;
}

std::vector<HardwareMultiple> hardware_multiples(DType operands, const Device& device) {
  std::vector<HardwareMultiple> rows = tensor_core_multiples();
  const char* figure = operands == DType::kF32    ? "tfloat32"
                       : operands == DType::kBF16 ? "bfloat16"
                                                  : "float16";
  if (!device.is_gpu || device.figure(figure) == 0) return rows;
  // Operands of two bytes are multiplied alike.
  const char* dtype = operands == DType::kF32 ? "tf32" : "fp16";
  const bool is_a100 = operands != DType::kF32 && device.name.starts_with("a100");
  for (HardwareMultiple& row : rows)
    row.is_this_run = row.dtype == dtype && row.device.ends_with("A100") == is_a100;
  return rows;
}

std::string disliked_sizes_notice(const std::vector<HardwareMultiple>& multiples,
                                  const std::vector<NamedSize>& sizes) {
  const HardwareMultiple* row = row_of_this_run(multiples);
  if (row == nullptr) return {};
  std::vector<std::string> disliked;
  for (const NamedSize& size : sizes) {
    const int64_t next = round_up(size.size, row->multiple);
    if (next != size.size) disliked.push_back(fmt::format("{} {} (next: {})", size.name, size.size, next));
  }
  if (disliked.empty()) return {};
  return fmt::format("Products like sizes that are multiples of {} ({}), which these are not: {}",
                     row->multiple, row->device, fmt::join(disliked, ", "));
}

TextTable multiples_table(const std::vector<HardwareMultiple>& multiples) {
  TextTable table{.columns = {{"dtype"}, {"device"}, {"multiples of", true}, {"this run"}}};
  for (const HardwareMultiple& row : multiples)
    table.rows.push_back({row.dtype, row.device, std::to_string(row.multiple), row.is_this_run ? "yes" : ""});
  return table;
}

TextTable sizes_table(const std::vector<HardwareMultiple>& multiples, const std::vector<NamedSize>& sizes) {
  const int64_t multiple = multiple_of_this_run(multiples);
  TextTable table{.columns = {{"size"}, {"elements", true}, {fmt::format("multiple of {}", multiple)}}};
  for (const NamedSize& size : sizes) {
    const int64_t next = round_up(size.size, multiple);
    table.rows.push_back({size.name, std::to_string(size.size),
                          next == size.size ? "yes" : fmt::format("no; {} is the next", next)});
  }
  return table;
}

std::string quantisation_text(int threads) {
  return fmt::format(
      "beyond multiples: tile quantisation (products are made in tiles, and a tile that the matrix fills in "
      "part takes as long as a full one) and wave quantisation (tiles go to the processors in rounds, here "
      "to {} threads, and a last round that does not give each of them one takes as long as a full one)",
      threads);
}

nlohmann::ordered_json multiples_to_json(const std::vector<HardwareMultiple>& multiples) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const HardwareMultiple& row : multiples) {
    json.push_back({{"dtype", row.dtype},
                    {"device", row.device},
                    {"multiple", row.multiple},
                    {"is_this_run", row.is_this_run}});
  }
  return json;
}

nlohmann::ordered_json sizes_to_json(const std::vector<HardwareMultiple>& multiples,
                                     const std::vector<NamedSize>& sizes) {
  const int64_t multiple = multiple_of_this_run(multiples);
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const NamedSize& size : sizes) {
    json.push_back({{"name", size.name},
                    {"size", size.size},
                    {"multiple", multiple},
                    {"is_multiple", size.size % multiple == 0},
                    {"next_multiple", round_up(size.size, multiple)}});
  }
  return json;
}

}  // namespace shoehorn
