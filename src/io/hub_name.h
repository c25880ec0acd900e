// Names of models on the Hugging Face hub, where a directory was asked for.
#pragma once

#include <string>

namespace shoehorn {

// "; names on the Hugging Face hub are not downloaded: …", which says how to fetch it and what to give then, if `name`
// may be such a name (of a model, or "org/name"); else "".
std::string download_hint(const std::string& name);

}  // namespace shoehorn
