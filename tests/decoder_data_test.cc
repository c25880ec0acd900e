// What the data of a language model may look like, for every architecture (the models of tests/golden/decoder_make.py): packed
// texts are texts alone, micro-batches with unequal numbers of targets are one batch, and files that hold the table of the
// embeddings, the head, or both are one model or another.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "data/torch_random.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "io/test_directory.h"
#include "models/registry.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

constexpr int64_t kGoldenVocabulary = 37;

using Row = std::vector<int64_t>;

Row row_of(int64_t length, int64_t seed) {
  Row row;
  for (int64_t t = 0; t < length; ++t) row.push_back((7 * seed + 5 * t * t + 3 * t) % kGoldenVocabulary);
  return row;
}

struct TrainedGolden {
  std::vector<double> losses;
  NamedWeights weights;
};

class DecoderData : public testing::TestWithParam<const char*> {
 protected:
  static TrainedGolden train(const Dataset& dataset, int64_t batch, int64_t accumulation, int64_t steps) {
    TrainingArguments args = quiet_arguments(batch);
    args.gradient_accumulation_steps = accumulation;
    args.max_steps = steps;
    args.train_sampling_strategy = "sequential";
    args.optim = "sgd";
    args.learning_rate = 0.05;
    const auto model = AutoModelForCausalLM::from_pretrained(golden("decoders") / GetParam());
    Trainer trainer(*model, args, dataset);
    trainer.train();
    return {logged(trainer.state(), "loss"), weights_of(trainer.session())};
  }
};

TEST_P(DecoderData, PackedTextsAreTextsAlone) {
  Dataset::Rows alone;
  Dataset::Rows packed;
  Dataset::Rows positions;
  const std::vector<int64_t> lengths = {9, 1, 17, 4, 12, 3, 2, 20, 6};
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (i % 3 == 0) {
      packed.emplace_back();
      positions.emplace_back();
    }
    alone.push_back(row_of(lengths[i], static_cast<int64_t>(i)));
    packed.back().insert(packed.back().end(), alone.back().begin(), alone.back().end());
    for (int64_t t = 0; t < lengths[i]; ++t) positions.back().push_back(t);
  }
  const Dataset of_alone = Dataset::next_token(Dataset::from_columns({{"input_ids", alone}}));
  const Dataset of_packed =
      Dataset::next_token(Dataset::from_columns({{"input_ids", packed}, {"position_ids", positions}}));
  const TrainedGolden expected = train(of_alone, 3, 1, 3);
  const TrainedGolden found = train(of_packed, 1, 1, 3);
  EXPECT_EQ(found.losses, expected.losses);
  for (const auto& [name, values] : expected.weights)
    EXPECT_TRUE(found.weights.at(name) == values) << name << " differs";
}

// One of them has no target at all.
TEST_P(DecoderData, UnequalMicroBatchesAreOneBatch) {
  Dataset::Rows rows;
  for (const int64_t length : {20, 1, 7, 12, 3, 18, 2, 9}) rows.push_back(row_of(length, std::ssize(rows)));
  const Dataset dataset = Dataset::next_token(Dataset::from_columns({{"input_ids", rows}}));
  const TrainedGolden expected = train(dataset, 4, 1, 2);
  for (const int64_t accumulation : {2, 4}) {
    SCOPED_TRACE(fmt::format("{} micro-batches", accumulation));
    const TrainedGolden found = train(dataset, 4 / accumulation, accumulation, 2);
    // 64 half steps of a number around 1, as for the golden's gradients, whose sums these are.
    constexpr double kTolerance = 64 * 0x1p-24;
    ASSERT_EQ(found.losses.size(), expected.losses.size());
    for (size_t step = 0; step < found.losses.size(); ++step)
      EXPECT_NEAR(found.losses[step] / expected.losses[step], 1, kTolerance) << "step " << step + 1;
    for (const auto& [name, values] : expected.weights) {
      double difference = 0;
      for (size_t i = 0; i < values.size(); ++i)
        difference = std::max(difference, std::abs(double{values[i]} - double{found.weights.at(name)[i]}));
      EXPECT_LE(difference, kTolerance) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, DecoderData,
                         testing::Values("gpt2", "gpt2_untied", "llama", "llama_llama3", "llama_yarn",
                                         "mistral", "qwen2", "qwen2_window", "qwen3"),
                         [](const auto& info) { return info.param; });

// The tensors of a file, by name.
struct Tensors {
  std::map<std::string, std::pair<std::vector<int64_t>, std::vector<float>>> by_name;

  explicit Tensors(const fs::path& file) {
    const SafetensorsFile opened = SafetensorsFile::open(file);
    for (const TensorEntry& entry : opened.tensors()) {
      auto& [shape, values] = by_name[entry.name];
      shape = entry.shape;
      values.resize(static_cast<size_t>(entry.bytes) / sizeof(float));
      opened.read_into(entry.name, std::as_writable_bytes(std::span(values)));
    }
  }

  void write(const fs::path& file) const {
    std::vector<TensorSpec> specs;
    for (const auto& [name, tensor] : by_name) specs.push_back({name, DType::kF32, tensor.first});
    SafetensorsWriter writer(file, specs);
    for (const auto& [name, tensor] : by_name) writer.append(name, std::as_bytes(std::span(tensor.second)));
    writer.commit();
  }
};

int64_t planned_parameters(const Model& model) {
  SessionOptions options;
  options.kind = RunKind::kEvaluate;
  options.evaluation = {16, 2, 8};
  return Session(model, std::move(options)).parameter_count();
}

class TiedFiles : public testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  // The weights of a directory with these tensors; `notices` gets what is said of it.
  NamedWeights load(const Tensors& tensors, std::string& notices) const {
    const fs::path source = golden("decoders") / GetParam().first;
    fs::copy_file(source / "config.json", directory_.path() / "config.json",
                  fs::copy_options::overwrite_existing);
    tensors.write(directory_.path() / "model.safetensors");
    const auto model = AutoModelForCausalLM::from_pretrained(directory_.path());
    notices.clear();
    for (const std::string& notice : model->notices()) notices += notice;
    const Dataset dataset =
        Dataset::next_token(Dataset::from_columns({{"input_ids", Dataset::Rows{row_of(9, 1)}}}));
    Trainer trainer(*model, quiet_arguments(1), {}, dataset);
    trainer.evaluate();
    return weights_of(trainer.session());
  }

  const TestDirectory directory_;
};

TEST_P(TiedFiles, HaveTheTableTheHeadOrBoth) {
  const auto& [name, table] = GetParam();
  const std::string head = "lm_head.weight";
  const Tensors tensors(golden("decoders") / name / "model.safetensors");
  ASSERT_TRUE(tensors.by_name.contains(table) && !tensors.by_name.contains(head)) << "saved once";
  std::string notices;
  const NamedWeights expected = load(tensors, notices);
  EXPECT_EQ(notices, "");
  EXPECT_FALSE(expected.contains(head));
  EXPECT_TRUE(expected.at(table) == tensors.by_name.at(table).second);

  Tensors head_alone = tensors;
  head_alone.by_name[head] = head_alone.by_name.extract(table).mapped();
  EXPECT_TRUE(load(head_alone, notices) == expected) << "a lone head is the table";
  EXPECT_EQ(notices, "");

  Tensors both = tensors;
  both.by_name[head] = both.by_name.at(table);
  EXPECT_TRUE(load(both, notices) == expected) << "equal numbers are one table";
  EXPECT_EQ(notices, "");

  both.by_name.at(head).second.back() += 1;
  const NamedWeights apart = load(both, notices);
  EXPECT_TRUE(contains(notices, "they are trained apart"));
  EXPECT_TRUE(apart.at(head) == both.by_name.at(head).second);
  EXPECT_TRUE(apart.at(table) == both.by_name.at(table).second);
  const int64_t trained = planned_parameters(*AutoModelForCausalLM::from_pretrained(directory_.path()));
  EXPECT_EQ(planned_parameters(*model_of_files(directory_.path())), trained) << "what is planned";
  fs::remove(directory_.path() / "model.safetensors");
  EXPECT_LT(planned_parameters(*model_of_files(directory_.path())), trained)
      << "without weights the config has the word";
}

INSTANTIATE_TEST_SUITE_P(Families, TiedFiles,
                         testing::Values(std::pair("gpt2", "transformer.wte.weight"),
                                         std::pair("llama_tied_biases", "model.embed_tokens.weight")),
                         [](const auto& info) { return std::string(info.param.first); });

}  // namespace
}  // namespace shoehorn
