// MiniLM fine-tuned on MRPC pairs for 200 steps, laid over the curves of Transformers' Trainer in fp32, and
// under autocast in bf16 and fp16 (tests/golden/minilm_make.py).
//
// Skipped where the encoder (SHOEHORN_MINILM_DIR, else .cache/minilm of the source tree) or the texts are
// absent.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "data/sampler.h"
#include "data/window_iterator.h"
#include "exec/backends.h"
#include "io/json_file.h"
#include "io/safetensors_writer.h"
#include "io/test_directory.h"
#include "stop_after.h"
#include "train/test_support.h"
#include "train/text_data.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
using nlohmann::json;
namespace fs = std::filesystem;

fs::path minilm_directory() {
  const char* given = std::getenv("SHOEHORN_MINILM_DIR");
  return given != nullptr ? fs::path(given) : fs::path(SHOEHORN_SOURCE_DIR) / ".cache/minilm";
}

// 64-bit FNV-1a over little-endian 32-bit integers, as the golden's script has it.
class Fingerprint {
 public:
  void add(int32_t value) {
    for (int shift = 0; shift < 32; shift += 8) {
      state_ ^= static_cast<uint64_t>(static_cast<uint32_t>(value) >> shift & 0xFFU);
      state_ *= 0x100000001B3U;
    }
  }
  std::string text() const { return fmt::format("{:016x}", state_); }

 private:
  uint64_t state_ = 0xCBF29CE484222325U;
};

class TrainMiniLm : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(minilm_directory() / "model.safetensors")) {
      GTEST_SKIP() << "no MiniLM in " << minilm_directory() << "; set SHOEHORN_MINILM_DIR";
    }
    if (!fs::exists(train_file_)) GTEST_SKIP() << "no " << train_file_;
    golden_ = read_json(golden("minilm_curve.json"));
  }

  // The encoder as one shard, the golden's classifier as another, and a config without dropout.
  void make_model_directory() const {
    json config = read_json(minilm_directory() / "config.json");
    config["hidden_dropout_prob"] = config["attention_probs_dropout_prob"] = 0.0;
    config["num_labels"] = 2;
    write_json_atomic(directory_.path() / "config.json", config);
    fs::create_symlink(fs::absolute(minilm_directory() / "model.safetensors"),
                       directory_.path() / "model-00001-of-00002.safetensors");
    json map;
    const SafetensorsFile encoder = SafetensorsFile::open(minilm_directory() / "model.safetensors");
    for (const TensorEntry& entry : encoder.tensors()) {
      map[entry.name] = "model-00001-of-00002.safetensors";
    }
    SafetensorsWriter classifier(
        directory_.path() / "model-00002-of-00002.safetensors",
        {{"classifier.weight", DType::kF32, {2, 384}}, {"classifier.bias", DType::kF32, {2}}});
    for (const char* name : {"weight", "bias"}) {
      std::vector<float> values;
      for (const json& row : golden_["classifier"][name]) {
        if (row.is_array()) {
          for (const json& value : row) values.push_back(value.get<float>());
        } else {
          values.push_back(row.get<float>());
        }
      }
      classifier.append(fmt::format("classifier.{}", name), std::as_bytes(std::span(values)));
      map[fmt::format("classifier.{}", name)] = "model-00002-of-00002.safetensors";
    }
    classifier.commit();
    write_json_atomic(directory_.path() / "model.safetensors.index.json",
                      json{{"metadata", json::object()}, {"weight_map", map}});
  }

  LoadedDataset load() const {
    const auto tokenizer = Tokenizer::load(minilm_directory());
    TrainingArguments args;
    args.task_name = "mrpc";
    return load_dataset(train_file_,
                        tokenize_with(*tokenizer, golden_["arguments"]["max_seq_length"].get<int64_t>(), 2),
                        load_options_of(args));
  }

  struct Curve {
    std::vector<double> loss, norm, rate;
  };

  // The first `steps` of the golden's, from the golden's weights, with what `set` changes.
  Curve train(const std::function<void(TrainingArguments&)>& set, int64_t steps) const {
    make_model_directory();
    const json& given = golden_["arguments"];
    TrainingArguments args = quiet_arguments(given["per_device_train_batch_size"].get<int64_t>());
    args.learning_rate = given["learning_rate"].get<double>();
    args.weight_decay = given["weight_decay"].get<double>();
    args.warmup_steps = given["warmup_steps"].get<double>();
    args.max_steps = given["max_steps"].get<int64_t>();
    set(args);
    const json config = read_json(directory_.path() / "config.json");
    const BertForSequenceClassification model(BertConfig::from_json(config, "config.json"), config.dump());
    Trainer trainer(model, args, load().dataset, {}, {.weights = directory_.path()});
    trainer.add_callback(std::make_shared<StopAfter>(steps));
    trainer.train();
    return {logged(trainer.state(), "loss"), logged(trainer.state(), "grad_norm"),
            logged(trainer.state(), "learning_rate")};
  }

  int64_t all_steps() const { return golden_["arguments"]["max_steps"].get<int64_t>(); }

  const fs::path train_file_ = fs::path(SHOEHORN_SHARED_DIR) / "data/mrpc/msr_paraphrase_train.txt";
  const TestDirectory directory_;
  json golden_;
};

TEST_F(TrainMiniLm, BatchesAreTheirs) {
  const LoadedDataset data = load();
  const std::vector<int32_t> lengths = data.dataset.lengths();
  std::vector<int64_t> order(lengths.size());
  Sampler({.seed = 42}, lengths).epoch_order(0, order);
  const BatchOptions options{.micro_batch_size = 8, .token_multiple = kTokenMultiple};
  WindowIterator windows(data.dataset, Sampler({.seed = 42}, lengths), options);
  const BatchCapacity capacity = windows.capacity();
  std::vector<std::byte> memory(static_cast<size_t>(micro_batch_bytes(capacity, {LabelKind::kClass})));
  MicroBatch batch = lay_out_micro_batch(memory, capacity, {LabelKind::kClass});
  windows.start_epoch(0);
  Window window;
  for (size_t step = 0; step < golden_["rows"].size(); ++step) {
    const std::vector<int64_t> rows = golden_["rows"][step];
    EXPECT_EQ(rows, std::vector<int64_t>(order.begin() + static_cast<int64_t>(8 * step),
                                         order.begin() + static_cast<int64_t>(8 * step + 8)))
        << "step " << step + 1;
    ASSERT_TRUE(windows.next_window(window));
    windows.load(0, batch);
    EXPECT_EQ(batch.tokens, golden_["tokens"][step].get<int64_t>());
    Fingerprint fingerprint;
    for (const int32_t id : batch.ints(BatchColumn::kInputIds).first(static_cast<size_t>(batch.tokens)))
      fingerprint.add(id);
    EXPECT_EQ(fingerprint.text(), golden_["input_ids_fnv1a"][step].get<std::string>()) << "step " << step + 1;
  }
}

TEST_F(TrainMiniLm, TwoHundredStepsFollowTransformers) {
  if (kIsSanitized) GTEST_SKIP() << "too slow under a sanitizer";
  const Curve curve = train([](TrainingArguments&) {}, all_steps());
  const json& theirs = golden_["fp32"];
  ASSERT_EQ(curve.loss.size(), theirs["loss"].size());
  // Twice how far Transformers' own fp32 is from float64, and the rounding of what is logged.
  const auto tolerance = [&](const char* key) {
    return 2 * golden_["spread"]["float64_to_fp32"][key]["all_steps"].get<double>() + 0x1p-23;
  };
  for (size_t i = 0; i < curve.loss.size(); ++i) {
    EXPECT_LE(std::abs(curve.loss[i] / theirs["loss"][i].get<double>() - 1), tolerance("loss"))
        << "loss of step " << i + 1;
    EXPECT_LE(std::abs(curve.norm[i] / theirs["grad_norm"][i].get<double>() - 1), tolerance("grad_norm"))
        << "grad_norm of step " << i + 1;
    EXPECT_NEAR(curve.rate[i], theirs["learning_rate"][i].get<double>(), 1e-17)
        << "learning_rate of step " << i + 1;
  }
}

// How far a curve is from the reference in the steps [begin, end): the root of the mean square, relative.
double distance(const std::vector<double>& curve, const std::vector<double>& reference, size_t begin,
                size_t end) {
  double squares = 0;
  for (size_t i = begin; i < end; ++i) squares += std::pow(curve[i] / reference[i] - 1, 2);
  return std::sqrt(squares / static_cast<double>(end - begin));
}

// Rounding moves a curve of mixed precision away from fp32's at random, so that ours cannot be theirs: it may be
// twice as far from fp32 as theirs is, in every quarter of the run. Two root mean squares over 50 steps of equal
// spread differ by that much where their steps go together in groups of ten, once in some hundred times.
// Where the processor has no products of the type a step takes many times as long: the first quarter then.
class TrainMiniLmIn : public TrainMiniLm, public testing::WithParamInterface<const char*> {
 protected:
  static constexpr size_t kQuarter = 50;

  int64_t steps_in(const std::string& precision) const {
    const DType operands = precision == "bf16" ? DType::kBF16 : DType::kF16;
    return make_backend()->machine().has_products_of(operands) ? all_steps() : static_cast<int64_t>(kQuarter);
  }
};

TEST_P(TrainMiniLmIn, IsAsNearToFp32AsTransformersIs) {
  if (kIsSanitized) GTEST_SKIP() << "too slow under a sanitizer";
  const std::string precision = GetParam();
  const int64_t steps = steps_in(precision);
  const Curve ours = train(
      [&](TrainingArguments& args) {
        args.bf16 = precision == "bf16";
        args.fp16 = precision == "fp16";
        if (args.fp16) args.loss_scale = golden_["arguments"]["float16_loss_scale"].get<double>();
      },
      steps);
  ASSERT_EQ(steps % static_cast<int64_t>(kQuarter), 0);
  for (const auto& [key, curve] : {std::pair{"loss", &ours.loss}, {"grad_norm", &ours.norm}}) {
    const auto fp32 = golden_["fp32"][key].get<std::vector<double>>();
    const auto theirs = golden_[precision][key].get<std::vector<double>>();
    ASSERT_EQ(std::ssize(*curve), steps);
    for (size_t begin = 0; begin < curve->size(); begin += kQuarter) {
      const double ours_to_fp32 = distance(*curve, fp32, begin, begin + kQuarter);
      const double theirs_to_fp32 = distance(theirs, fp32, begin, begin + kQuarter);
      RecordProperty(fmt::format("{}_{}", key, begin),
                     fmt::format("{:.3g} of {:.3g}", ours_to_fp32, theirs_to_fp32));
      EXPECT_LE(ours_to_fp32, 2 * theirs_to_fp32)
          << key << " of steps " << begin + 1 << " to " << begin + kQuarter;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, TrainMiniLmIn, testing::Values("bf16", "fp16"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace shoehorn
