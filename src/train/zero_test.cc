// Training on ranks that share optimizer states, gradients and weights (passes/zero.h), against ranks that each have all of
// them: the same sums in the same order, so the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/process.h"
#include "io/file.h"
#include "io/tensor_files.h"
#include "io/test_directory.h"
#include "state/weights.h"
#include "train/rank_runs_testing.h"

namespace shoehorn {
namespace {

using namespace test_support;
namespace fs = std::filesystem;

using Zero = Ranks;

TrainingArguments adamw_arguments() {
  TrainingArguments args = rank_arguments();
  args.optim = "adamw_torch";
  args.learning_rate = 1e-3;
  return args;
}

TrainingArguments at_stage(TrainingArguments args, int64_t stage, int64_t threshold = 0) {
  args.zero_stage = stage;
  args.zero_persistence_threshold = threshold;
  return args;
}

// Norms as texts: that of a step which the loss scale skips may be no number.
void expect_same_bits(const RankRun& expected, const RankRun& run, const std::string& what) {
  EXPECT_EQ(run.losses, expected.losses) << what;
  EXPECT_EQ(fmt::format("{}", fmt::join(run.norms, " ")), fmt::format("{}", fmt::join(expected.norms, " ")))
      << what;
  expect_same_weights(expected.weights, run.weights, what);
}

void expect_as_planned(const std::vector<RankRun>& runs, const std::string& what) {
  for (const RankRun& run : runs) {
    EXPECT_EQ(run.measured_bytes, run.planned_bytes) << what;
    EXPECT_EQ(run.planned_bytes, runs[0].planned_bytes) << what << ": ranks hold alike";
    EXPECT_EQ(run.losses, runs[0].losses) << what;
  }
}

// Layer by layer, with and without gathers ahead of their layer.
TEST_F(Zero, UpdatesInTheBackwardHaveTheBitsOfDataParallel) {
  TrainingArguments args = adamw_arguments();
  args.gradient_accumulation_steps = 2;
  args.accumulation_order = "layer_major";
  args.max_grad_norm = 0;
  args.update_in_backward = true;
  const Dataset samples = tiny_samples(28, 5);
  const RankRun expected = train_on(2, args, samples)[0];
  for (const int64_t ahead : {0, 1, 2}) {
    TrainingArguments sharded = at_stage(args, 3);
    sharded.zero_prefetch_layers = ahead;
    const std::vector<RankRun> runs = train_on(2, sharded, samples);
    expect_same_bits(expected, runs[0], fmt::format("{} layers ahead", ahead));
    expect_as_planned(runs, fmt::format("{} layers ahead", ahead));
  }
}

// 28 samples are 7 micro-batches an epoch, so that the last window has fewer than there are ranks, or one that is short.
// Sizes are uneven: 3 classes on 4 ranks, 8-bit blocks that end within a part.
TEST_F(Zero, HasTheBitsOfDataParallel) {
  const std::vector<Form> forms = {
      {"one micro-batch", [](TrainingArguments&) {}},
      {"sgd", [](TrainingArguments& args) { args.optim = "sgd"; }},
      {"lion", [](TrainingArguments& args) { args.optim = "lion_32bit"; }},
      {"8-bit",
       [](TrainingArguments& args) {
         args.optim = "adamw_bnb_8bit";
         args.optim_args = {{"min_8bit_size", 500.0}, {"embedding_bits", 8.0}};
       }},
      {"layer-major",
       [](TrainingArguments& args) {
         args.gradient_accumulation_steps = 2;
         args.accumulation_order = "layer_major";
       }},
      {"update in backward",
       [](TrainingArguments& args) {
         args.accumulation_order = "layer_major";
         args.max_grad_norm = 0;
         args.update_in_backward = true;
       }},
      {"recomputed", [](TrainingArguments& args) { args.gradient_checkpointing = true; }},
      {"frozen", [](TrainingArguments& args) { args.freeze = {"embeddings"}; }},
      {"recomputed under a budget", [](TrainingArguments& args) { args.activation_budget = "0.5"; }},
      {"bf16", [](TrainingArguments& args) { args.bf16 = true; }},
      {"bf16 without masters",
       [](TrainingArguments& args) {
         args.bf16 = true;
         args.master_weights = "none";
       }},
      {"fp16", [](TrainingArguments& args) { args.fp16 = true; }},
      {"adapters", [](TrainingArguments& args) { args.lora_rank = 2; }},
      {"adapters of a bf16 model",
       [](TrainingArguments& args) {
         args.lora_rank = 2;
         args.bf16 = true;
       }},
  };
  const Dataset samples = tiny_samples(28, 5);
  for (const Form& form : forms) {
    for (const int32_t size : {2, 4}) {
      TrainingArguments args = adamw_arguments();
      form.set(args);
      const RankRun expected = train_on(size, args, samples)[0];
      for (const int64_t stage : {1, 2, 3}) {
        const std::string what = fmt::format("{}, stage {} on {} ranks", form.name, stage, size);
        const std::vector<RankRun> runs = train_on(size, at_stage(args, stage), samples);
        expect_same_bits(expected, runs[0], what);
        expect_as_planned(runs, what);
        // A part of each weight beside the whole costs more than an optimizer without states has to share.
        if (args.optim == "adamw_torch" && args.lora_rank == 0) {
          EXPECT_LT(runs[0].planned_bytes, expected.planned_bytes) << what;
        }
      }
    }
  }
}

// The same rounding elsewhere but of the keys' bias: its gradient is zero but for rounding, and Adafactor makes whole steps of it.
void expect_alike_but_for_noise(const RankRun& one, const RankRun& many, const std::string& what,
                                DType dtype) {
  RankRun compared = one;
  std::erase_if(compared.weights, [](const auto& weight) { return weight.first.ends_with("key.bias"); });
  expect_alike(compared, many, what, dtype);
}

// Adafactor reads sums over whole parameters: against ranks that have everything these are rounded elsewhere, and from stage to
// stage nothing is.
TEST_F(Zero, SharesAdafactorsRows) {
  const std::vector<Form> forms = {
      {"as it is", [](TrainingArguments&) {}},
      {"first moment", [](TrainingArguments& args) { args.optim_args = {{"beta1", 0.9}}; }},
      {"scaled, relative step",
       [](TrainingArguments& args) {
         const TrainingArguments standard;
         args.learning_rate = standard.learning_rate;
         args.lr_scheduler_type = standard.lr_scheduler_type;
         args.optim_args = {{"scale_parameter", true}, {"relative_step", true}};
       }},
      {"adalomo",
       [](TrainingArguments& args) {
         args.optim = "adalomo";
         args.max_grad_norm = 0;
       }},
      {"adalomo, layer-major",
       [](TrainingArguments& args) {
         args.optim = "adalomo";
         args.max_grad_norm = 0;
         args.gradient_accumulation_steps = 2;
         args.accumulation_order = "layer_major";
       }},
      {"adapters", [](TrainingArguments& args) { args.lora_rank = 2; }},
      {"bf16", [](TrainingArguments& args) { args.bf16 = true; }, DType::kBF16},
      {"bf16 without masters",
       [](TrainingArguments& args) {
         args.bf16 = true;
         args.master_weights = "none";
       },
       DType::kBF16},
      {"fp16", [](TrainingArguments& args) { args.fp16 = true; }, DType::kF16},
  };
  const Dataset samples = tiny_samples(28, 5);
  for (const Form& form : forms) {
    for (const int32_t size : {2, 4}) {
      TrainingArguments args = adamw_arguments();
      args.optim = "adafactor";
      args.max_steps = 6;
      form.set(args);
      const RankRun whole = train_on(size, args, samples)[0];
      std::optional<RankRun> first;
      for (const int64_t stage : {1, 2, 3}) {
        const std::string what = fmt::format("{}, stage {} on {} ranks", form.name, stage, size);
        const std::vector<RankRun> runs = train_on(size, at_stage(args, stage), samples);
        expect_alike_but_for_noise(whole, runs[0], what, form.dtype);
        expect_as_planned(runs, what);
        if (first) {
          expect_same_bits(*first, runs[0], what);
        } else {
          first = runs[0];
        }
      }
    }
  }
}

// 8 ranks, where some have no row of a matrix of 3.
TEST_F(Zero, LeavesRanksWithoutRows) {
  TrainingArguments args = adamw_arguments();
  args.optim = "adafactor";
  args.max_steps = 3;
  const Dataset samples = tiny_samples(64, 5);
  const RankRun whole = train_on(8, args, samples)[0];
  const std::vector<RankRun> runs = train_on(8, at_stage(args, 2), samples);
  expect_alike_but_for_noise(whole, runs[0], "8 ranks", DType::kF32);
  expect_as_planned(runs, "8 ranks");
}

// Under micro-batch accumulation stage 1 sums as data parallel does; from stage 2 on each micro-batch is summed over ranks
// first. Where there are fewer micro-batches than ranks have, some run another's, which adds nothing.
TEST_F(Zero, AccumulatesMicroBatches) {
  const Dataset samples = tiny_samples(28, 5);
  for (const int32_t size : {2, 4}) {
    for (const std::string optim : {"sgd", "adafactor"}) {
      TrainingArguments args = rank_arguments();
      args.gradient_accumulation_steps = 2;
      if (optim == "adafactor") {
        args.optim = optim;
        args.learning_rate = 1e-3;
        args.max_steps = 6;
      }
      const RankRun expected = train_on(size, args, samples)[0];
      for (const int64_t stage : {1, 2, 3}) {
        const std::string what = fmt::format("{}, stage {} on {} ranks", optim, stage, size);
        const std::vector<RankRun> runs = train_on(size, at_stage(args, stage), samples);
        if (stage == 1 && optim == "sgd") expect_same_bits(expected, runs[0], what);
        expect_alike_but_for_noise(expected, runs[0], what, DType::kF32);
        expect_as_planned(runs, what);
      }
    }
  }
}

// However far ahead weights are gathered, and whichever stay whole.
TEST_F(Zero, DoesNotDependOnWhatIsGatheredWhen) {
  const Dataset samples = tiny_samples(16, 5);
  TrainingArguments args = at_stage(adamw_arguments(), 3);
  args.max_steps = 6;
  const RankRun expected = train_on(2, args, samples)[0];
  for (const int64_t ahead : {0, 2, 9}) {
    args.zero_prefetch_layers = ahead;
    expect_same_bits(expected, train_on(2, args, samples)[0], fmt::format("{} layers ahead", ahead));
  }
  args = at_stage(args, 3, 100);
  expect_same_bits(expected, train_on(2, args, samples)[0], "small weights stay whole");
}

// Where nobody says how far ahead, the prediction does, of plans that fit.
TEST_F(Zero, GathersAsFarAheadAsThePredictionSays) {
  const Dataset samples = tiny_samples(16, 5);
  TrainingArguments args = at_stage(adamw_arguments(), 3);
  args.world_size = 2;
  const BertForSequenceClassification model(tiny_bert());
  const auto chosen_by = [&](std::function<std::optional<double>(const Session&)> step_seconds) {
    const Trainer trainer(model, args, samples, {}, {.step_seconds = std::move(step_seconds)});
    EXPECT_EQ(trainer.arguments().zero_prefetch_layers,
              trainer.session().options().step.ranks.zero_prefetch_layers);
    return trainer.session().options().step.ranks.zero_prefetch_layers;
  };
  EXPECT_EQ(chosen_by({}), 1);
  EXPECT_EQ(chosen_by([](const Session&) { return std::nullopt; }), 1);
  EXPECT_EQ(chosen_by([](const Session& session) {
              return session.options().step.ranks.zero_prefetch_layers < 2 ? 2.0 : 1.0;
            }),
            2);
  args.zero_prefetch_layers = 3;
  EXPECT_EQ(chosen_by([](const Session&) { return 1.0; }), 3);
  args.memory_budget = 1;
  args.zero_prefetch_layers.reset();
  EXPECT_EQ(chosen_by({}), 0);
}

// Stages 2 and 3 sum each micro-batch over ranks in the same order; the scale of fp16, and what it skips, are of all ranks.
TEST_F(Zero, AccumulatesHalfWeights) {
  const Dataset samples = tiny_samples(28, 5);
  TrainingArguments args = adamw_arguments();
  args.fp16 = true;
  args.initial_scale_power = 24;  // the first steps overflow
  args.gradient_accumulation_steps = 2;
  const RankRun expected = train_on(4, at_stage(args, 2), samples)[0];
  EXPECT_FALSE(std::isfinite(expected.norms.at(0)));
  EXPECT_TRUE(std::isfinite(expected.norms.back()));
  const std::vector<RankRun> runs = train_on(4, at_stage(args, 3), samples);
  expect_same_bits(expected, runs[0], "stage 3");
  expect_as_planned(runs, "stage 3");
}

// As one rank with the same micro-batches, but for the rounding of sums.
TEST_F(Zero, TrainsAsOneRankDoes) {
  const Dataset samples = tiny_samples(28, 5);
  const RankRun one = train_on(1, on_one_rank(rank_arguments(), 4), samples)[0];
  for (const int64_t stage : {1, 2, 3})
    expect_alike(one, train_on(4, at_stage(rank_arguments(), stage), samples)[0],
                 fmt::format("stage {}", stage), DType::kF32);
}

TEST_F(Zero, SendsWhatTheStepSays) {
  const Dataset samples = tiny_samples(64, 5);
  for (const int64_t stage : {1, 2, 3}) {
    for (const auto& [accumulated, optim] :
         {std::pair{1, "sgd"}, {2, "sgd"}, {1, "adafactor"}, {1, "adalomo"}}) {
      TrainingArguments args = at_stage(rank_arguments(), stage);
      args.optim = optim;
      args.max_grad_norm = args.optim == "adalomo" ? 0 : 1;
      args.gradient_accumulation_steps = accumulated;
      expect_sends_as_planned(3, args, samples, fmt::format("stage {}", stage));
    }
  }
}

// A number of ranks, and the stages at which it goes on.
struct ResumedLayout {
  int32_t size;
  std::vector<int64_t> stages;
};

// Four ranks save whole states, and parts of them; what other ranks go on to from the parts is what they go on to from the whole.
void expect_resumes_elsewhere(const Form& form, const std::vector<ResumedLayout>& layouts) {
  const TestDirectory directory;
  const Dataset samples = tiny_samples(32, 5);
  const auto saving = [&](const std::string& name, int32_t size, int64_t stage) {
    TrainingArguments args = at_stage(adamw_arguments(), stage, stage == 3 ? 100 : 0);
    form.set(args);
    args.accumulation_order = "layer_major";
    args.gradient_accumulation_steps = 4 / size;
    args.output_dir = (directory.path() / name).string();
    args.max_steps = 12;
    args.save_strategy = "steps";
    args.save_steps = 6;
    return args;
  };
  const auto resumed = [](TrainingArguments args, const fs::path& checkpoint) {
    args.resume_from_checkpoint = checkpoint.string();
    return args;
  };
  const auto checkpoint = [&](const std::string& name, int64_t step) {
    return directory.path() / name / fmt::format("checkpoint-{}", step);
  };
  const auto save_model = [&](const std::string& name) {
    return [path = directory.path() / name](Trainer& trainer) { trainer.save_model(path); };
  };
  const auto expect_same_file = [](const fs::path& a, const fs::path& b) {
    EXPECT_TRUE(read_text_file(a / "model.safetensors") == read_text_file(b / "model.safetensors")) << b;
  };
  train_on(4, saving("whole", 4, 0), samples, save_model("whole-model"));
  train_on(4, saving("four", 4, 2), samples, save_model("four-model"));
  EXPECT_TRUE(fs::exists(checkpoint("four", 6) / "optimizer-rank-00003-of-00004.safetensors"));
  EXPECT_FALSE(fs::exists(checkpoint("four", 6) / "optimizer.safetensors"));
  expect_same_file(directory.path() / "whole-model", directory.path() / "four-model");
  EXPECT_FALSE(fs::exists(directory.path() / "four-model" / ".parts-of-weights"));
  for (const auto& [size, stages] : layouts) {
    const std::string whole = fmt::format("expected-{}", size);
    const RankRun expected =
        train_on(size, resumed(saving(whole, size, 0), checkpoint("whole", 6)), samples)[0];
    if (form.dtype == DType::kF16) {
      EXPECT_TRUE(std::any_of(expected.norms.begin() + 6, expected.norms.end(), [](double norm) {
        return !std::isfinite(norm);
      })) << "the scale that is gone on with grows too far";
    }
    for (const int64_t stage : stages) {
      const std::string name = fmt::format("{}-on-{}-at-{}", form.name, size, stage);
      const RankRun run =
          train_on(size, resumed(saving(name, size, stage), checkpoint("four", 6)), samples)[0];
      expect_same_bits(expected, run, name);
      if (size == 1) expect_same_file(checkpoint(whole, 12), checkpoint(name, 12));
      if (size > 1 && stage == 3) {
        EXPECT_TRUE(
            fs::exists(checkpoint(name, 12) / fmt::format("model-rank-00001-of-{:05}.safetensors", size)));
      }
    }
  }
}

TEST_F(Zero, ResumesAtOtherStagesAndNumbers) {
  expect_resumes_elsewhere({"adamw", [](TrainingArguments&) {}},
                           {{4, {0, 1, 3}}, {2, {0, 1, 3}}, {1, {0, 3}}});
  const std::vector<Form> forms = {
      {"lion", [](TrainingArguments& args) { args.optim = "lion_32bit"; }},
      {"8-bit",
       [](TrainingArguments& args) {
         args.optim = "adamw_bnb_8bit";
         args.optim_args = {{"min_8bit_size", 500.0}, {"embedding_bits", 8.0}};
       }},
      {"fp16",
       [](TrainingArguments& args) {
         args.fp16 = true;
         args.initial_scale_power = 20;
         args.loss_scale_window = 2;
       },
       DType::kF16},
      {"bf16 without masters",
       [](TrainingArguments& args) {
         args.bf16 = true;
         args.master_weights = "none";
       }},
  };
  for (const Form& form : forms) expect_resumes_elsewhere(form, {{2, {3}}, {1, {1}}});
}

// From rank to ranks to other ranks, each with another stage: what was handed on each time is what ranks hand on that each have
// all of it.
TEST_F(Zero, ResumesInAChainOfNumbersAndStages) {
  struct Link {
    int32_t size;
    int64_t stage;
  };
  constexpr std::array<Link, 4> kChain = {{{1, 0}, {4, 1}, {2, 2}, {3, 3}}};
  constexpr int64_t kStepsOfALink = 4, kMicroBatches = 12;
  const Dataset samples = tiny_samples(48, 5);
  const TestDirectory directory;
  const auto run_chain = [&](const std::string& name, bool is_shared) {
    std::string checkpoint;
    RankRun last;
    for (size_t i = 0; i < kChain.size(); ++i) {
      TrainingArguments args = at_stage(adamw_arguments(), is_shared ? kChain[i].stage : 0);
      args.gradient_accumulation_steps = kMicroBatches / kChain[i].size;
      args.accumulation_order = "layer_major";  // sums of all stages are alike
      args.output_dir = (directory.path() / fmt::format("{}-{}", name, i)).string();
      args.max_steps = static_cast<int64_t>(i + 1) * kStepsOfALink;
      args.save_strategy = "steps";
      args.save_steps = kStepsOfALink;
      args.resume_from_checkpoint = checkpoint;
      last = train_on(kChain[i].size, args, samples)[0];
      checkpoint = args.output_dir + fmt::format("/checkpoint-{}", args.max_steps);
    }
    return last;
  };
  const RankRun whole = run_chain("whole", false);
  EXPECT_EQ(std::ssize(whole.losses), std::ssize(kChain) * kStepsOfALink);
  expect_same_bits(whole, run_chain("shared", true), "1 -> 4 -> 2 -> 3");
}

// The most that this process held during `act`, beyond what it held before.
int64_t growth_during(const std::function<void()>& act) {
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak is what is held now
  const int64_t before = process_peak_bytes();
  act();
  return process_peak_bytes() - before;
}

// The saved model goes through a rank a piece at a time: none holds all of it, nor a matrix that is most of it.
TEST_F(Zero, SavesAModelThatNoRankHolds) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  const TestDirectory directory;
  BertConfig config = tiny_bert();
  config.vocab_size = 1 << 15;
  config.hidden_size = 512;
  config.num_attention_heads = 4;
  const int64_t matrix_bytes = config.vocab_size * config.hidden_size * 4;
  EXPECT_GE(growth_during([&] { const std::vector<char> copy(static_cast<size_t>(matrix_bytes), 'x'); }),
            matrix_bytes / 2)
      << "a copy shows";
  const BertForSequenceClassification model(config);
  for (const bool has_adapters : {false, true}) {
    TrainingArguments args = at_stage(rank_arguments(), 3);
    args.max_steps = 1;
    args.lora_rank = has_adapters ? 2 : 0;
    args.lora_merge = has_adapters;
    const fs::path saved = directory.path() / (has_adapters ? "merged" : "whole");
    const fs::path base = has_adapters ? directory.path() / "whole" : fs::path();
    for (const std::string& growth : run_in_processes(2, [&](const std::shared_ptr<Communicator>& ranks) {
           Trainer trainer(model, args, tiny_samples(8, 5), {}, {.weights = base, .ranks = ranks});
           trainer.train();
           return std::to_string(growth_during([&] { trainer.save_model(saved); }));
         }))
      EXPECT_LT(std::stoll(growth), matrix_bytes / 4) << saved << ": of " << matrix_bytes;
    EXPECT_GT(fs::file_size(saved / "model.safetensors"), matrix_bytes);
  }
}

// The bytes of each state in files, whoever wrote them.
std::map<std::string, std::vector<std::byte>> states_in(const fs::path& file) {
  const TensorFiles files = TensorFiles::open(file);
  std::map<std::string, std::vector<std::byte>> states;
  for (const std::string& name : files.names()) {
    std::vector<std::byte>& bytes = states[name];
    bytes.resize(static_cast<size_t>(files.tensor(name).bytes));
    files.read_range(name, 0, bytes);
  }
  return states;
}

// Adafactor's states of rows, which ranks write in parts, and of columns, which one writes, are read at other numbers of ranks
// and at other stages, bit for bit; and training goes on from them as if it had not stopped.
TEST_F(Zero, KeepsAdafactorsStatesWhereverTheyAreRead) {
  const TestDirectory directory;
  const Dataset samples = tiny_samples(32, 5);
  const auto saving = [&](const std::string& name, int32_t size, int64_t stage) {
    TrainingArguments args = at_stage(adamw_arguments(), stage, stage == 3 ? 100 : 0);
    args.optim = "adafactor";
    args.optim_args = {{"beta1", 0.9}};
    args.accumulation_order = "layer_major";
    args.gradient_accumulation_steps = 4 / size;
    args.output_dir = (directory.path() / name).string();
    args.save_strategy = "steps";
    args.save_steps = 3;
    args.max_steps = 6;
    return args;
  };
  const fs::path half = directory.path() / "four" / "checkpoint-3";
  const RankRun whole = train_on(4, saving("four", 4, 2), samples)[0];
  const TensorFiles written = TensorFiles::open(half / "optimizer.safetensors");
  int64_t columns = 0;
  for (const std::string& name : written.names()) {
    if (!name.ends_with(".exp_avg_sq_col")) continue;
    ++columns;
    EXPECT_EQ(written.parts(name).size(), 1U) << name;
  }
  EXPECT_GT(columns, 0);
  const auto expected = states_in(half / "optimizer.safetensors");
  for (const auto& [size, stage] : {std::pair{1, 0}, {2, 3}, {4, 1}}) {
    const std::string name = fmt::format("{}-{}", size, stage);
    TrainingArguments args = saving(name, size, stage);
    args.resume_from_checkpoint = half.string();
    args.max_steps = 3;  // all are made
    train_on(size, args, samples, [&](Trainer& trainer) {
      Session& session = trainer.session();
      const StepOptions& step = session.options().step;
      const Owner owner = {static_cast<int32_t>(step.ranks.rank),
                           static_cast<int32_t>(step.ranks.world_size)};
      save_optimizer_states(directory.path() / name / "states.safetensors", session.state(),
                            session.executor(), step.optimizer.settings, owner);
    });
    EXPECT_TRUE(states_in(directory.path() / name / "states.safetensors") == expected) << name;
  }
  TrainingArguments args = saving("on", 4, 3);
  args.resume_from_checkpoint = half.string();
  expect_same_weights(whole.weights, train_on(4, args, samples)[0].weights, "resumed at stage 3");
}

// The adapters that ranks have parts of are saved whole, by the first of them, to the byte; so is the model that they are merged
// into. Other numbers of ranks go on from their checkpoints at other stages.
TEST_F(Zero, SavesAdaptersWhole) {
  const TestDirectory directory;
  const Dataset samples = tiny_samples(32, 5);
  const fs::path base = directory.path() / "base";
  run_in_processes(1, [&](const std::shared_ptr<Communicator>&) {
    const BertForSequenceClassification model(tiny_bert());
    Trainer(model, rank_arguments(), samples).save_model(base);
    return std::string();
  });
  for (const bool bf16 : {false, true}) {
    const auto train = [&](const std::string& name, int32_t size, int64_t stage, const fs::path& from = {}) {
      const fs::path output = directory.path() / fmt::format("{}-{}", bf16, name);
      TrainingArguments args = at_stage(adamw_arguments(), stage, 100);
      args.accumulation_order = "layer_major";
      args.gradient_accumulation_steps = 4 / size;
      args.lora_rank = 2;
      args.bf16 = bf16;
      args.output_dir = output.string();
      args.save_strategy = "steps";
      args.save_steps = 10;
      args.resume_from_checkpoint = from.string();
      args.lora_merge = true;
      run_in_processes(size, [&](const std::shared_ptr<Communicator>& ranks) {
        const BertForSequenceClassification model(tiny_bert());
        Trainer trainer(model, args, samples, {}, {.weights = base, .ranks = ranks});
        trainer.train();
        trainer.save_model(output / "merged");
        return std::string();
      });
      return output;
    };
    const auto expect_same_files = [](const fs::path& a, const fs::path& b) {
      for (const char* file : {"checkpoint-20/adapter_model.safetensors", "merged/model.safetensors"})
        EXPECT_TRUE(read_text_file(a / file) == read_text_file(b / file)) << b << ": " << file;
    };
    const fs::path whole = train("whole", 4, 0);
    const fs::path resumed = train("resumed", 2, 0, whole / "checkpoint-10");
    for (const int64_t stage : {1, 2, 3}) {
      const fs::path parts = train(fmt::format("parts-{}", stage), 4, stage);
      expect_same_files(whole, parts);
      EXPECT_TRUE(fs::exists(parts / "checkpoint-10" / "optimizer-rank-00003-of-00004.safetensors"));
      EXPECT_FALSE(fs::exists(parts / "checkpoint-10" / "model-rank-00003-of-00004.safetensors"));
      const fs::path half = parts / "checkpoint-10";
      expect_same_files(resumed, train(fmt::format("resumed-{}", stage), 2, 4 - stage, half));
    }
  }
}

TrainingArguments in_groups(TrainingArguments args, int64_t stage, int64_t group_size = 2) {
  args = at_stage(std::move(args), stage);
  args.zero_group_size = group_size;
  return args;
}

// Two groups of two ranks: as one rank with all micro-batches but for the rounding of sums, and each stage with the bits of
// the others; both groups have the same weights.
TEST_F(Zero, SharesWithinGroups) {
  const Dataset samples = tiny_samples(28, 5);
  for (const std::string optim : {"sgd", "adafactor"}) {
    TrainingArguments args = rank_arguments();
    args.optim = optim;
    if (optim == "adafactor") {
      args.learning_rate = 1e-3;
      args.max_steps = 6;
    }
    const RankRun one = train_on(1, on_one_rank(args, 4), samples)[0];
    std::optional<RankRun> first;
    for (const int64_t stage : {1, 2, 3}) {
      const std::string what = fmt::format("{}, stage {}", optim, stage);
      const std::vector<RankRun> runs = train_on(4, in_groups(args, stage), samples);
      expect_alike_but_for_noise(one, runs[0], what, DType::kF32);
      expect_as_planned(runs, what);
      expect_same_weights(runs[0].weights, runs[2].weights, what);
      if (first) expect_same_bits(*first, runs[0], what);
      first = runs[0];
      const RankRun of_all = train_on(4, at_stage(args, stage), samples)[0];
      EXPECT_GT(runs[0].planned_bytes, of_all.planned_bytes) << "a half of all, not a quarter";
    }
  }
}

// Micro-batches are summed within groups, and over groups once behind the last.
TEST_F(Zero, AccumulatesWithinGroups) {
  const Dataset samples = tiny_samples(64, 5);
  for (const std::string order : {"micro_batch", "layer_major"}) {
    for (const int64_t stage : {1, 2, 3}) {
      TrainingArguments args = rank_arguments();
      args.gradient_accumulation_steps = 2;
      args.accumulation_order = order;
      const RankRun one = train_on(1, on_one_rank(args, 4), samples)[0];
      const std::string what = fmt::format("{}, stage {}", order, stage);
      const std::vector<RankRun> runs = train_on(4, in_groups(args, stage), samples);
      expect_alike(one, runs[0], what, DType::kF32);
      expect_as_planned(runs, what);
      expect_same_weights(runs[0].weights, runs[2].weights, what);
      expect_sends_as_planned(4, in_groups(args, stage), samples, what);
    }
  }
}

// The first group writes, and every part once; another number of ranks, of groups and another stage go on from it.
TEST_F(Zero, ResumesFromGroups) {
  const TestDirectory directory;
  const Dataset samples = tiny_samples(32, 5);
  const auto saving = [&](const std::string& name, int32_t size) {
    TrainingArguments args = adamw_arguments();
    args.accumulation_order = "layer_major";
    args.gradient_accumulation_steps = 4 / size;
    args.output_dir = (directory.path() / name).string();
    args.save_strategy = "steps";
    args.save_steps = 3;
    args.max_steps = 6;
    return args;
  };
  const fs::path half = directory.path() / "groups" / "checkpoint-3";
  const RankRun whole = train_on(4, in_groups(saving("groups", 4), 3), samples, [&](Trainer& trainer) {
    trainer.save_model(directory.path() / "model");
  })[0];
  const auto resumed = [&](TrainingArguments args) {
    args.resume_from_checkpoint = half.string();
    return args;
  };
  expect_same_weights(
      whole.weights, train_on(4, resumed(in_groups(saving("again", 4), 2)), samples)[0].weights, "in groups");
  EXPECT_TRUE(read_text_file(directory.path() / "again" / "checkpoint-6" / "trainer_state.json").size() > 0);
  const RankRun of_four = train_on(4, resumed(at_stage(saving("four", 4), 3)), samples)[0];
  const RankRun one = train_on(1, resumed(saving("one", 1)), samples)[0];
  EXPECT_EQ(of_four.losses.size(), one.losses.size());
  expect_alike_but_for_noise(one, of_four, "four that share", DType::kF32);
  // Every element has one writer, or the files would not be read.
  const TensorFiles states = TensorFiles::open(half / "optimizer.safetensors");
  EXPECT_FALSE(states.names().empty());
  for (const std::string& name : states.names()) EXPECT_LE(states.parts(name).size(), 2U) << name;
  EXPECT_TRUE(fs::exists(directory.path() / "model" / "model.safetensors"));
}

// Each batch is one rank's; the last round has fewer batches than there are ranks, and all gather weights all the same.
TEST_F(Zero, EvaluatesAsOneRankDoes) {
  const auto evaluate = [&](int32_t size, int64_t stage) {
    return run_in_processes(size, [&](const std::shared_ptr<Communicator>& ranks) {
      const BertForSequenceClassification model(tiny_bert());
      TrainingArguments args = at_stage(rank_arguments(), stage);
      args.per_device_eval_batch_size = 4;
      Trainer trainer(model, args, tiny_samples(8, 5), tiny_samples(22, 6), {.ranks = ranks});
      std::string text;
      for (const auto& [name, value] : trainer.evaluate()) {
        if (name.ends_with("_runtime") || name.ends_with("_per_second")) continue;
        text += fmt::format("{} {:a}\n", name, metric_number(value));
      }
      return text;
    });
  };
  const std::string one = evaluate(1, 0)[0];
  for (const int64_t stage : {1, 3}) {
    for (const std::string& of_rank : evaluate(4, stage)) EXPECT_EQ(of_rank, one) << stage;
  }
}

}  // namespace
}  // namespace shoehorn
