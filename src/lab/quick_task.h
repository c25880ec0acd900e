// A task that a random start learns in a second: texts of made-up words, four labels, a model of two small
// layers.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace shoehorn {

// Writes the model with its tokenizer, 640 texts to train on and 320 to evaluate on into `directory`, which
// exists. Each text has a few words of its label's own among words that all labels use, so that some cannot
// be told. The same files in every call.
void write_quick_task(const std::filesystem::path& directory);

// Flags of `shoehorn train` for it, but --output_dir.
std::vector<std::string> quick_task_flags(const std::filesystem::path& directory);

}  // namespace shoehorn
