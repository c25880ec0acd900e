// The guides' dummy data: 512 sequences of 512 random token ids, and binary labels.
#include <random>

#include "guide.h"

using namespace shoehorn;

int main(int argc, char** argv) {
  return guide::run(argc, argv, [](const guide::Setting& setting) {
    const size_t sequence_length = setting.small ? 32 : 512;
    const size_t dataset_size = setting.small ? 16 : 512;
    std::mt19937 random(42);
    Dataset::Rows input_ids(dataset_size, std::vector<int64_t>(sequence_length));
    std::vector<int64_t> labels(dataset_size);
    for (auto& row : input_ids) {
      for (int64_t& id : row) id = 100 + random() % 29900;
    }
    for (int64_t& label : labels) label = random() % 2;
    const Dataset dataset =
        Dataset::from_columns({{"input_ids", std::move(input_ids)}, {"labels", std::move(labels)}});
    std::printf("%d samples, %d tokens, %d bytes\n", static_cast<int>(dataset.size()),
                static_cast<int>(dataset.token_count()), static_cast<int>(dataset.memory_bytes()));
  });
}
