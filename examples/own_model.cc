// A custom model: defined with the ops of ModelBuilder, trained with Trainer.
//
// One attention layer over token and position embeddings; the first token's state is classified. The task:
// does a sequence contain token 7? Ends with an error if the model has not learned it.
#include <cstdio>
#include <exception>
#include <random>

#include "shoehorn.h"

namespace {

using namespace shoehorn;

constexpr int64_t kVocabulary = 32;
constexpr int64_t kHidden = 32;
constexpr int64_t kPositions = 16;

class FinderModel final : public Model {
 public:
  Outputs forward(ModelBuilder& builder) const override {
    builder.set_region(-1, Component::kEmbeddings);
    Tensor x = builder.embedding(embedding_table(builder, "tokens", kVocabulary, kHidden, 0.2F),
                                 builder.input(BatchColumn::kInputIds));
    x = builder.add_embedding(x, embedding_table(builder, "positions", kPositions, kHidden, 0.2F),
                              builder.input(BatchColumn::kPositionIds));
    builder.set_region(0, Component::kAttention);
    const Tensor context = builder.attention(linear_layer(builder, "query", x, kHidden, 0.2F),
                                             linear_layer(builder, "key", x, kHidden, 0.2F),
                                             linear_layer(builder, "value", x, kHidden, 0.2F), {.heads = 2});
    const Tensor mixed = layer_norm_layer(builder, "norm", builder.add(context, x), 1e-5F);
    builder.set_region(-1, Component::kHead);
    return linear_layer(builder, "classifier", builder.first_tokens(mixed), num_labels(), 0.2F);
  }
  const Task& task() const override { return task_; }
  int64_t max_positions() const override { return kPositions; }
  int64_t vocab_size() const override { return kVocabulary; }

 private:
  SingleLabelClassification task_{2};
};

Dataset make_data(int64_t samples, uint32_t seed) {
  std::mt19937 random(seed);
  Dataset::Rows ids;
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < samples; ++i) {
    std::vector<int64_t> sequence = {1};  // what is classified
    const auto length = 4 + random() % (kPositions - 4);
    while (sequence.size() < length) sequence.push_back(8 + random() % (kVocabulary - 8));
    labels.push_back(random() % 2);
    if (labels.back() == 1) sequence[1 + random() % (length - 1)] = 7;
    ids.push_back(std::move(sequence));
  }
  return Dataset::from_columns({{"input_ids", std::move(ids)}, {"labels", std::move(labels)}});
}

double train_and_evaluate() {
  const FinderModel model;
  TrainingArguments args;
  args.output_dir = "own_model_output";
  args.per_device_train_batch_size = 32;
  args.num_train_epochs = 10;
  args.learning_rate = 5e-3;
  args.save_strategy = "no";
  Trainer trainer(model, args, make_data(1024, 1), make_data(256, 2));
  std::printf("%s", format_forecast(trainer.forecast()).c_str());
  const TrainOutput output = trainer.train();
  print_summary(output);
  return metric_number(trainer.evaluate().at("eval_accuracy"));
}

}  // namespace

int main() {
  try {
    const double accuracy = train_and_evaluate();
    std::printf("accuracy on new sequences: %.3f\n", accuracy);
    return accuracy > 0.9 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
