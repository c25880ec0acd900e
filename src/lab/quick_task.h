// A task that a randomly initialized model learns in a second: texts of made-up words, four labels, a model
// with two small layers.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace shoehorn {

// Writes the model with its tokenizer, 640 training texts and 320 evaluation texts to `directory`, which
// exists. Each text has a few words of its own label among words that all labels use, so that some cannot be
// told apart. Every call writes the same files.
void write_quick_task(const std::filesystem::path& directory);

// The flags of `shoehorn train` for it, without --output_dir.
std::vector<std::string> quick_task_flags(const std::filesystem::path& directory);

}  // namespace shoehorn
