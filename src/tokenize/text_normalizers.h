// Normalizers that strip, replace or prepend text: Strip, Replace, Prepend.
#pragma once

#include "tokenize/normalizer.h"

namespace shoehorn {

std::unique_ptr<Normalizer> read_strip(const JsonNode& node);
std::unique_ptr<Normalizer> read_replace(const JsonNode& node);
std::unique_ptr<Normalizer> read_prepend(const JsonNode& node);

}  // namespace shoehorn
