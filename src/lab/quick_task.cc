#include "lab/quick_task.h"

#include <fmt/format.h>

#include <array>
#include <random>

#include "data/dataset.h"
#include "io/file.h"
#include "models/registry.h"
#include "train/trainer.h"

namespace shoehorn {

namespace {

constexpr std::array<std::string_view, 4> kLabels = {"east", "north", "south", "west"};
constexpr uint32_t kWordsOfALabel = 6;
constexpr uint32_t kCommonWords = 40;
constexpr uint32_t kOneInHowMany = 5;  // words that are the label's own

std::string vocabulary() {
  std::string text = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (const std::string_view label : kLabels) {
    for (uint32_t word = 0; word < kWordsOfALabel; ++word) text += fmt::format("{}{}\n", label, word);
  }
  for (uint32_t word = 0; word < kCommonWords; ++word) text += fmt::format("common{}\n", word);
  return text;
}

// From the generator's own numbers, which are the same everywhere, unlike the standard's distributions.
std::string labelled_texts(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::string csv = "text,label\n";
  for (int64_t i = 0; i < count; ++i) {
    const std::string_view label = kLabels[random() % kLabels.size()];
    const uint32_t words = 6 + random() % 10;
    for (uint32_t w = 0; w < words; ++w) {
      if (w > 0) csv += ' ';
      const bool is_own = random() % kOneInHowMany == 0;
      csv += is_own ? fmt::format("{}{}", label, random() % kWordsOfALabel)
                    : fmt::format("common{}", random() % kCommonWords);
    }
    csv += fmt::format(",{}\n", label);
  }
  return csv;
}

constexpr int64_t kVocabulary = 5 + int64_t{kLabels.size()} * kWordsOfALabel + kCommonWords;
constexpr int64_t kPositions = 32;

}  // namespace

void write_quick_task(const std::filesystem::path& directory) {
  write_text_atomic(directory / "train.csv", labelled_texts(640, 1));
  write_text_atomic(directory / "validation.csv", labelled_texts(320, 2));
  const std::filesystem::path model = directory / "model";
  std::filesystem::create_directories(model);
  write_text_atomic(model / "vocab.txt", vocabulary());
  const auto untrained = model_of_a_second(kVocabulary, kPositions, classes(kLabels.size()));
  // A trainer saves a model's start only with some data set to plan for.
  Dataset any =
      Dataset::random_tokens({.count = 1, .length = 4, .vocab_begin = 5, .vocab_end = 20, .num_labels = 2});
  Trainer(*untrained, {}, {}, std::move(any)).save_model(model);
}

std::vector<std::string> quick_task_flags(const std::filesystem::path& directory) {
  return {"--model_name_or_path",
          (directory / "model").string(),
          "--train_file",
          (directory / "train.csv").string(),
          "--validation_file",
          (directory / "validation.csv").string(),
          "--max_seq_length",
          fmt::format("{}", kPositions),
          "--per_device_train_batch_size",
          "16",
          "--learning_rate",
          "2e-3",
          "--num_train_epochs",
          "3"};
}

}  // namespace shoehorn
