// A model of one's own in fifty lines: it classifies a text by its first token alone. Trained on random data.
#include <fmt/format.h>

#include "shoehorn.h"

namespace {

using namespace shoehorn;

class FirstTokenClassifier final : public Model {
 public:
  Outputs forward(ModelBuilder& builder) const override {
    builder.set_region(-1, Component::kEmbeddings);
    const Tensor table = embedding_table(builder, "embeddings", kVocabulary, kHidden, kInitializerRange);
    Tensor x = builder.embedding(table, builder.input(BatchColumn::kInputIds));
    for (int32_t layer = 0; layer < kLayers; ++layer) {
      builder.set_region(layer, Component::kFeedForward);
      const std::string prefix = fmt::format("layers.{}.", layer);
      Tensor y = linear_layer(builder, prefix + "dense", x, kHidden, kInitializerRange);
      y = builder.token_dropout(builder.activation(y, Activation::kGelu), 0.1F);
      x = layer_norm_layer(builder, prefix + "norm", builder.add(y, x), 1e-12F);
    }
    builder.set_region(-1, Component::kHead);
    return linear_layer(builder, "classifier", builder.first_tokens(x), num_labels(), kInitializerRange);
  }
  const Task& task() const override { return task_; }
  int64_t max_positions() const override { return 64; }
  int64_t vocab_size() const override { return kVocabulary; }

 private:
  static constexpr int64_t kVocabulary = 1000;
  static constexpr int64_t kHidden = 64;
  static constexpr int32_t kLayers = 2;
  static constexpr float kInitializerRange = 0.02F;
  SingleLabelClassification task_{2};
};

}  // namespace

int main() {
  const FirstTokenClassifier model;
  Dataset data = Dataset::random_tokens(
      {.count = 256, .length = 32, .vocab_begin = 0, .vocab_end = 1000, .num_labels = 2});
  TrainingArguments args;
  args.output_dir = "first_token";
  args.per_device_train_batch_size = 16;
  args.learning_rate = 1e-2;
  args.save_strategy = "no";
  Trainer trainer(model, args, std::move(data));
  fmt::print("{}", format_forecast(trainer.forecast()));
  print_summary(trainer.train());
  trainer.save_model(args.output_dir);
}
