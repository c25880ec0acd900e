// Ranks that train alone and average their weights (passes/local_sgd.h).
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/test_directory.h"
#include "train/rank_runs_testing.h"

namespace shoehorn {
namespace {

using namespace test_support;
namespace fs = std::filesystem;

using LocalSgd = Ranks;

TrainingArguments local_arguments(int64_t steps_alone) {
  TrainingArguments args = rank_arguments();
  args.local_sgd_steps = steps_alone;
  args.max_grad_norm = 0;  // each rank would clip by a norm of its own
  return args;
}

TrainingArguments diloco_arguments(int64_t steps_alone) {
  TrainingArguments args = local_arguments(steps_alone);
  args.optim = "adamw_torch";
  args.learning_rate = 1e-3;
  args.outer_learning_rate = 0.7;
  args.outer_momentum = 0.9;
  return args;
}

// With plain SGD the mean of weights after one step is the step with the mean gradient. Windows are whole, and samples of one
// target each, so that a mean over ranks is the mean over samples.
TEST_F(LocalSgd, OneStepAloneIsDataParallel) {
  const std::vector<Form> forms = {
      {"one micro-batch", [](TrainingArguments&) {}},
      {"accumulated", [](TrainingArguments& args) { args.gradient_accumulation_steps = 2; }},
      {"layer-major",
       [](TrainingArguments& args) {
         args.gradient_accumulation_steps = 2;
         args.accumulation_order = "layer_major";
       }},
      {"update in backward",
       [](TrainingArguments& args) {
         args.accumulation_order = "layer_major";
         args.update_in_backward = true;
       }},
      {"adapters", [](TrainingArguments& args) { args.lora_rank = 2; }},
      {"frozen", [](TrainingArguments& args) { args.freeze = {"embeddings"}; }},
      {"bf16", [](TrainingArguments& args) { args.bf16 = true; }, DType::kBF16},
  };
  const Dataset samples = tiny_samples(32, 5);
  for (const Form& form : forms) {
    for (const int32_t size : {2, 4}) {
      TrainingArguments args = local_arguments(1);
      form.set(args);
      const std::vector<RankRun> alone = train_on(size, args, samples);
      args.local_sgd_steps = 0;
      const RankRun together = train_on(size, args, samples)[0];
      const std::string what = form.name + " on " + std::to_string(size) + " ranks";
      expect_alike(together, alone[0], what, form.dtype);
      for (const RankRun& run : alone) {
        expect_same_weights(alone[0].weights, run.weights, what);
        EXPECT_EQ(run.losses, alone[0].losses) << what;
        EXPECT_EQ(run.measured_bytes, run.planned_bytes) << what;
      }
    }
  }
}

// The weights of a rank when a step begins and when it ends, before what is due behind it.
class KeepWeights : public TrainerCallback {
 public:
  explicit KeepWeights(Trainer& trainer) : trainer_(trainer) {}
  void on_step_begin(const TrainingArguments&, const TrainerState&, TrainerControl&) override {
    begins.push_back(weights_of(trainer_.session()));
  }
  void on_step_end(const TrainingArguments&, const TrainerState&, TrainerControl&) override {
    ends.push_back(weights_of(trainer_.session()));
  }
  std::vector<NamedWeights> begins, ends;

 private:
  Trainer& trainer_;
};

struct WatchedRun {
  std::vector<NamedWeights> begins, ends;
  NamedWeights last;
};

std::vector<WatchedRun> watch(int32_t size, const TrainingArguments& args) {
  std::vector<WatchedRun> runs;
  for (const std::string& text : run_in_processes(size, [&](const std::shared_ptr<Communicator>& ranks) {
         const BertForSequenceClassification model(tiny_bert(0.1F));
         Trainer trainer(model, args, tiny_samples(28, 5), {}, {.ranks = ranks});
         const auto kept = std::make_shared<KeepWeights>(trainer);
         trainer.add_callback(kept);
         trainer.train();
         const std::vector<uint8_t> bytes = nlohmann::json::to_cbor(
             {{"begins", kept->begins}, {"ends", kept->ends}, {"last", weights_of(trainer.session())}});
         return std::string(bytes.begin(), bytes.end());
       })) {
    const nlohmann::json json = nlohmann::json::from_cbor(text);
    runs.push_back({json["begins"].get<std::vector<NamedWeights>>(),
                    json["ends"].get<std::vector<NamedWeights>>(), json["last"].get<NamedWeights>()});
  }
  return runs;
}

// Five steps, of which three are alone, then two, which the end of training ends. What an outer update makes of the weights that
// ranks had is worked out in double; it rounds as in outer_update_test, and the momentum of the first is known by what it moved.
TEST_F(LocalSgd, TakesTheMeanOfWhatRanksMoved) {
  constexpr double kRate = 0.7, kMomentum = 0.9;
  constexpr int32_t kSize = 3;
  constexpr double kTolerance = 16 * 0x1p-24;  // weights are below 2
  TrainingArguments args = diloco_arguments(3);
  args.max_steps = 5;
  const std::vector<WatchedRun> runs = watch(kSize, args);
  double moved = 0;
  for (const auto& [name, start] : runs[0].begins[0]) {
    for (size_t i = 0; i < start.size(); ++i) {
      const double first = runs[0].begins[3].at(name)[i];
      const double first_gradient = (start[i] - first) / (kRate * (1 + kMomentum));
      double gradient = 0;
      for (const WatchedRun& run : runs) {
        ASSERT_EQ(run.begins[0].at(name)[i], start[i]);
        ASSERT_EQ(run.begins[3].at(name)[i], first) << "alike behind the outer update";
        ASSERT_EQ(run.last.at(name)[i], runs[0].last.at(name)[i]);
        gradient += (first - run.ends[4].at(name)[i]) / kSize;
      }
      const double momentum = kMomentum * first_gradient + gradient;
      ASSERT_NEAR(runs[0].last.at(name)[i], first - kRate * (gradient + kMomentum * momentum), kTolerance)
          << name << "[" << i << "]";
      moved = std::max(moved, std::abs(start[i] - first));
    }
  }
  EXPECT_GT(moved, 1e-3) << "or nothing is tested";
  EXPECT_NE(runs[0].ends[1], runs[1].ends[1]) << "ranks train alone";
}

// A rank without a target, of plain SGD: the mean of its weights and another's is half of the step that both would make together.
// It has no loss of its own, and where no rank has one nothing moves.
TEST_F(LocalSgd, ARankWithoutTargetsMovesNothing) {
  TrainingArguments args = silent_arguments();
  args.max_grad_norm = 0;
  const auto samples = [&](int64_t windows) {
    return tiny_samples(samples_of_windows(args, windows), 5, 20,
                        [&](int64_t sample) { return is_silent(args, sample); });
  };
  const BertForSequenceClassification model(tiny_bert());
  Trainer untrained(model, args, {}, samples(1));
  const double loss = metric_number(untrained.evaluate().at("eval_loss"));
  const NamedWeights start = weights_of(untrained.session());
  const auto run = [&](int64_t steps_alone, int64_t steps) {
    args.local_sgd_steps = steps_alone;
    args.max_steps = steps;
    return train_model_on(model, 2, args, samples(3))[0];
  };
  const RankRun together = run(0, 1), first = run(1, 1), second = run(1, 2), all = run(1, 3);
  double moved = 0;
  for (const auto& [name, values] : together.weights) {
    for (size_t i = 0; i < values.size(); ++i) {
      const double half_way = (static_cast<double>(start.at(name)[i]) + values[i]) / 2;
      ASSERT_NEAR(first.weights.at(name)[i], half_way, bound(1, 1, DType::kF32)) << name << "[" << i << "]";
      moved = std::max(moved, std::abs(half_way - start.at(name)[i]));
    }
  }
  EXPECT_GT(moved, 10 * bound(1, 1, DType::kF32)) << "or nothing is tested";
  expect_same_weights(first.weights, second.weights, "no target");
  EXPECT_NEAR(all.losses.at(0), loss, bound(1, loss, DType::kF32));
  EXPECT_EQ(all.losses.at(1), 0);
  EXPECT_GT(all.losses.at(2), 0);
}

// Only outer updates send, and ranks tell each other of stops and losses then; a step's part is what the plan says, but for
// losses.
TEST_F(LocalSgd, SendsEverySoManySteps) {
  const Dataset samples = tiny_samples(64, 5);
  for (const int32_t size : {2, 3}) {
    TrainingArguments args = local_arguments(4);
    args.logging_strategy = "no";
    args.max_steps = 8;
    const std::vector<RankRun> two = train_on(size, args, samples);
    args.max_steps = 20;
    const std::vector<RankRun> five = train_on(size, args, samples);
    for (size_t rank = 0; rank < two.size(); ++rank) {
      const int64_t losses = (size - 1) * kToldLossesBytes;
      EXPECT_EQ(five[rank].sent_bytes - two[rank].sent_bytes,
                3 * (4 * five[rank].planned_sent_bytes + losses));
    }
  }
}

// A checkpoint has the states of each rank, and momentum; it ends the steps alone, wherever it comes. Of a window with fewer
// micro-batches than ranks some ranks have none.
TEST_F(LocalSgd, ResumesWithTheSameBits) {
  const TestDirectory directory;
  const Dataset samples = tiny_samples(28, 5);
  const auto saving = [&](const std::string& name, const std::string& optim) {
    TrainingArguments args = diloco_arguments(4);
    args.optim = optim;
    args.optim_args = {{"min_8bit_size", 500.0}, {"embedding_bits", 8.0}};
    if (optim == "adafactor") args.optim_args = {};
    args.output_dir = (directory.path() / name).string();
    args.save_strategy = "steps";
    args.save_steps = 6;
    return args;
  };
  for (const char* optim : {"adamw_bnb_8bit", "adafactor"}) {
    const std::string name = optim;
    const auto save = [&](Trainer& trainer) { trainer.save_model(directory.path() / (name + "-model")); };
    const RankRun whole = train_on(3, saving(name, optim), samples, save)[0];
    const fs::path checkpoint = directory.path() / name / "checkpoint-6";
    EXPECT_TRUE(fs::exists(checkpoint / "model.safetensors")) << "one model, which other programs read";
    EXPECT_TRUE(fs::exists(checkpoint / "optimizer-rank-00002-of-00003.safetensors"));
    EXPECT_TRUE(fs::exists(directory.path() / (name + "-model") / "model.safetensors"));
    TrainingArguments args = saving(name + "-resumed", optim);
    args.resume_from_checkpoint = checkpoint.string();
    const std::vector<RankRun> resumed = train_on(3, args, samples);
    expect_same_weights(whole.weights, resumed[0].weights, optim);
    expect_same_weights(resumed[0].weights, resumed[2].weights, optim);
    EXPECT_EQ(whole.losses, resumed[0].losses) << optim;
  }
}

}  // namespace
}  // namespace shoehorn
