// Every architecture. A new one has two lines here. The file that defines it has the name of its model_type.
#pragma once

#include "models/architecture.h"

namespace shoehorn {

extern const Architecture kBert;
extern const Architecture kDistilBert;
extern const Architecture kGpt2;
extern const Architecture kLlama;
extern const Architecture kMistral;
extern const Architecture kQwen2;
extern const Architecture kQwen3;

// The first is that of a config without a model_type.
inline constexpr const Architecture* kArchitectures[] = {
    &kBert, &kDistilBert, &kGpt2, &kLlama, &kMistral, &kQwen2, &kQwen3,
};

}  // namespace shoehorn
