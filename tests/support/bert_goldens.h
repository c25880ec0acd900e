// Where the goldens of the small BERT and DistilBERT lie.
#pragma once

#include <filesystem>

#include "io/test_directory.h"

namespace shoehorn::test_support {

inline const std::filesystem::path kBertGolden = golden("bert_small");
inline const std::filesystem::path kDistilBertGolden = golden("distilbert_small");
// The BERT and its samples with an adapter; the numbers are those of the adapter and the classifier.
inline const std::filesystem::path kLoraGolden = golden("lora_small");

}  // namespace shoehorn::test_support
