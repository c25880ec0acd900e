// An adapter's directory, of which a reader replaces one file.
#pragma once

#include "fuzz/reader.h"
#include "io/safetensors_header.h"
#include "state/adapter_config.h"
#include "state/adapter_tensors.h"

namespace shoehorn::fuzz {

inline void write_adapter(const InputDirectory& directory) {
  const std::string layer = std::string(kAdapterTensorPrefix) + "bert.encoder.layer.0.attention.self.";
  directory.write(
      kAdapterConfigName,
      R"({"peft_type":"LORA","r":1,"target_modules":["query"],"modules_to_save":["classifier"]})");
  directory.write(
      kAdapterWeightsName,
      format_safetensors_header({{layer + "query.lora_A.weight", DType::kU8, {1, 2}},
                                 {layer + "query.lora_B.weight", DType::kU8, {2, 1}},
                                 {std::string(kAdapterTensorPrefix) + "classifier.weight", DType::kU8, {2}}},
                                {}) +
          "abcdef");
}

}  // namespace shoehorn::fuzz
