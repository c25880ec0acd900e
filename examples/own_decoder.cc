// A decoder of one's own: its layers are ops of ModelBuilder, its head and its task are the library's. It is trained on the
// lines of a text file, saved, and goes on with a text.
//
//   example_own_decoder TOKENIZER_DIR TEXT_FILE OUTPUT_DIR
//
// Each layer has a causal attention whose two query heads share a head of keys and values, with rotary positions, and a
// gated feed-forward beside it: both read the same norm, and the layer adds both to what it read.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <exception>

#include "shoehorn.h"

namespace {

using namespace shoehorn;

class ParallelDecoder final : public DecoderStack {
 public:
  explicit ParallelDecoder(int64_t vocab_size) : DecoderStack(facts_of(vocab_size)) {}

  // Shapes: N tokens, H hidden, A heads of D columns, F feed-forward.
  Tensor hidden_states(ModelBuilder& builder) const override {
    builder.set_region(-1, Component::kEmbeddings);
    Tensor x = builder.embedding(  // [N, H]
        embedding_table(builder, facts().embedding.substr(0, facts().embedding.rfind('.')),
                        facts().vocab_size, kHidden, kInitializerRange),
        builder.input(BatchColumn::kInputIds));
    const Tensor rotary = builder.rotary_table(frequencies());
    for (int32_t layer = 0; layer < kLayers; ++layer) {
      const std::string prefix = fmt::format("decoder.layers.{}.", layer);
      builder.set_region(layer, Component::kAttention);
      const Tensor normed = rms_norm_layer(builder, prefix + "norm", x, kEpsilon);
      x = builder.add(attention(builder, prefix + "attention.", normed, rotary), x);
      builder.set_region(layer, Component::kFeedForward);
      x = builder.add(feed_forward(builder, prefix + "feed_forward.", normed), x);
    }
    return rms_norm_layer(builder, "decoder.norm", x, kEpsilon);
  }

 private:
  static constexpr int64_t kHidden = 64;
  static constexpr int64_t kHeads = 4;
  static constexpr int64_t kKeyValueHeads = 2;
  static constexpr int64_t kHeadSize = kHidden / kHeads;
  static constexpr int64_t kFeedForward = 160;
  static constexpr int32_t kLayers = 2;
  static constexpr float kEpsilon = 1e-6F;
  static constexpr float kInitializerRange = 0.02F;

  static DecoderFacts facts_of(int64_t vocab_size) {
    return {.model_type = "parallel_decoder",
            .causal_class = "ParallelDecoderForCausalLM",
            .classifier_class = "ParallelDecoderForSequenceClassification",
            .base_model_prefix = "decoder",
            .embedding = "decoder.embeddings.weight",
            .vocab_size = vocab_size,
            .hidden_size = kHidden,
            .max_positions = 128,
            .max_position_embeddings = 128,
            .initializer_range = kInitializerRange,
            .ties_word_embeddings = true,
            .product_sizes = {},
            .lora_targets = {"query", "value"}};
  }

  static RotaryFrequencies frequencies() {
    RotaryFrequencies rotary;
    for (int64_t i = 0; i < kHeadSize; i += 2)
      rotary.frequencies.push_back(
          std::pow(10000.0F, -static_cast<float>(i) / static_cast<float>(kHeadSize)));
    return rotary;
  }

  static Tensor linear(ModelBuilder& builder, const std::string& name, Tensor x, int64_t outputs) {
    return linear_layer_without_bias(builder, name, x, outputs, kInitializerRange);
  }

  static Tensor attention(ModelBuilder& builder, const std::string& name, Tensor x, Tensor rotary) {
    const Tensor query = linear(builder, name + "query", x, kHidden);                 // [N, A · D]
    const Tensor key = linear(builder, name + "key", x, kKeyValueHeads * kHeadSize);  // [N, A / 2 · D]
    const Tensor value = linear(builder, name + "value", x, kKeyValueHeads * kHeadSize);
    const Tensor context = builder.attention(
        builder.rotate(query, rotary, kHeads), builder.rotate(key, rotary, kKeyValueHeads), value,
        {.heads = kHeads, .key_value_heads = kKeyValueHeads, .mask = AttentionMask::causal()});
    return linear(builder, name + "output", context, kHidden);
  }

  static Tensor feed_forward(ModelBuilder& builder, const std::string& name, Tensor x) {
    const Tensor gate =
        builder.activation(linear(builder, name + "gate", x, kFeedForward), Activation::kSilu);  // [N, F]
    return linear(builder, name + "down",
                  builder.multiply(gate, linear(builder, name + "up", x, kFeedForward)), kHidden);
  }
};

void train_on(const char* tokenizer_directory, const char* text_file, const char* output_dir) {
  const auto tokenizer = Tokenizer::load(tokenizer_directory);
  const CausalLanguageModel model(std::make_shared<ParallelDecoder>(tokenizer->vocab_size()));

  TrainingArguments args;
  args.output_dir = output_dir;
  args.train_file = text_file;
  args.block_size = 64;
  args.packing = "documents";
  args.add_eos = true;
  args.per_device_train_batch_size = 4;
  args.num_train_epochs = 8;
  args.learning_rate = 5e-3;
  args.z_loss = 1e-4;
  args.logging_steps = 5;
  args.save_strategy = "no";
  LanguageData data = load_language_data(
      args, {.tokenizer = *tokenizer,
             .model = {.max_positions = model.max_positions(), .vocab_size = model.vocab_size()}});
  std::printf("%s", data.summary.c_str());
  Trainer trainer(model, args, std::move(data.train.dataset), std::move(data.validation.dataset),
                  {.companions = list_companions(tokenizer_directory)});
  std::printf("%s", format_forecast(trainer.forecast()).c_str());
  print_summary(trainer.train());
  std::printf("%s", format_metrics("eval", trainer.evaluate()).c_str());
  trainer.save_model(output_dir);

  TextGenerator generator(model, {.weights = output_dir, .max_length = 32});
  const std::vector<int32_t> prompt = tokenizer->encode("the").input_ids;
  GenerationOptions options;
  options.max_new_tokens = 10;
  options.sampling.do_sample = false;
  std::printf("the%s\n", tokenizer->decode(generator.generate(prompt, options)).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 4)
      throw user_error("[example_own_decoder] expected TOKENIZER_DIR TEXT_FILE OUTPUT_DIR, got {} words",
                       argc - 1);
    train_on(argv[1], argv[2], argv[3]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
