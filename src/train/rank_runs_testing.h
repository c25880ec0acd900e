// Training on several ranks, which are processes of one thread, for tests: what each rank had of it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/backend/thread_count.h"
#include "ranks/process_ranks_testing.h"
#include "train/test_support.h"

namespace shoehorn::test_support {

inline constexpr int64_t kRankSteps = 20;

// One thread a rank.
class Ranks : public testing::Test {
 protected:
  Ranks() { use_threads(1); }
  ~Ranks() override { use_threads(threads_); }

 private:
  int threads_ = thread_count().threads;
};

struct RankRun {
  std::vector<double> losses, norms;
  NamedWeights weights;              // whole, whoever has which part of them
  std::vector<std::string> sharded;  // the names of those of which the rank has a part
  int64_t group_size = 1;            // of ranks that have all parts together
  int64_t planned_bytes = 0, measured_bytes = 0;
  int64_t sent_bytes = 0;          // in all
  int64_t planned_sent_bytes = 0;  // in a step
};

inline TrainingArguments rank_arguments(int64_t micro_batch_size = 4) {
  TrainingArguments args = quiet_arguments(micro_batch_size);
  args.optim = "sgd";  // AdamW makes whole steps of gradients that are rounding alone
  args.learning_rate = 0.1;
  args.lr_scheduler_type = "constant";
  args.max_steps = kRankSteps;
  return args;
}

// Of an optimizer that divides a gradient by the root of a mean square plus epsilon: an error of the gradient moves the step by at
// most twice itself ÷ epsilon. With the epsilon that is returned that is no more than what SGD makes of it at the rate of
// rank_arguments().
inline double use_optimizer_with_epsilon(TrainingArguments& args, const std::string& optimizer) {
  const double rate_of_sgd = args.learning_rate;
  args.optim = optimizer;
  args.learning_rate = 1e-3;
  return 2 * args.learning_rate / rate_of_sgd;
}

inline void use_adamw(TrainingArguments& args) {
  args.adam_epsilon = use_optimizer_with_epsilon(args, "adamw_torch");
}

// As their bytes: JSON's numbers would take longer than the training.
inline nlohmann::json weights_to_json(const NamedWeights& weights) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, values] : weights) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
    json[name] = nlohmann::json::binary(std::vector<uint8_t>(bytes, bytes + values.size() * sizeof(float)));
  }
  return json;
}

inline NamedWeights weights_from_json(const nlohmann::json& json) {
  NamedWeights weights;
  for (const auto& [name, value] : json.items()) {
    const std::vector<uint8_t>& bytes = value.get_binary();
    std::vector<float>& values = weights[name];
    values.resize(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
  }
  return weights;
}

inline std::string to_text(const RankRun& run) {
  const std::vector<uint8_t> bytes =
      nlohmann::json::to_cbor({{"losses", run.losses},
                               {"norms", run.norms},
                               {"weights", weights_to_json(run.weights)},
                               {"sharded", run.sharded},
                               {"group_size", run.group_size},
                               {"planned_bytes", run.planned_bytes},
                               {"measured_bytes", run.measured_bytes},
                               {"sent_bytes", run.sent_bytes},
                               {"planned_sent_bytes", run.planned_sent_bytes}});
  return {bytes.begin(), bytes.end()};
}

inline RankRun run_of(const std::string& text) {
  const nlohmann::json json = nlohmann::json::from_cbor(text);
  return {.losses = json["losses"].get<std::vector<double>>(),
          .norms = json["norms"].get<std::vector<double>>(),
          .weights = weights_from_json(json["weights"]),
          .sharded = json["sharded"].get<std::vector<std::string>>(),
          .group_size = json["group_size"].get<int64_t>(),
          .planned_bytes = json["planned_bytes"].get<int64_t>(),
          .measured_bytes = json["measured_bytes"].get<int64_t>(),
          .sent_bytes = json["sent_bytes"].get<int64_t>(),
          .planned_sent_bytes = json["planned_sent_bytes"].get<int64_t>()};
}

inline std::vector<std::string> sharded_parameters(const Session& session) {
  std::vector<std::string> names;
  for (const Parameter& parameter : session.state().parameters()) {
    if (parameter.is_sharded()) names.push_back(parameter.name);
  }
  return names;
}

// Parts of weights follow each other by rank; each group has all of them.
inline void join_weights(std::vector<RankRun>& runs) {
  for (const std::string& name : runs.at(0).sharded) {
    const auto group_size = static_cast<size_t>(runs[0].group_size);
    for (size_t group = 0; group < runs.size(); group += group_size) {
      std::vector<float> whole;
      for (size_t rank = group; rank < group + group_size; ++rank)
        whole.insert(whole.end(), runs[rank].weights.at(name).begin(), runs[rank].weights.at(name).end());
      for (size_t rank = group; rank < group + group_size; ++rank) runs[rank].weights[name] = whole;
    }
  }
}

// Each rank's run, by rank. `at_end`: what each does behind it.
inline std::vector<RankRun> train_model_on(const Model& model, int32_t size, const TrainingArguments& args,
                                           const Dataset& samples,
                                           const std::function<void(Trainer&)>& at_end = {}) {
  std::vector<RankRun> runs;
  for (const std::string& text : run_in_processes(size, [&](const std::shared_ptr<Communicator>& ranks) {
         Trainer trainer(model, args, samples, {}, {.ranks = ranks});
         trainer.train();
         if (at_end) at_end(trainer);
         return to_text(
             {.losses = logged(trainer.state(), "loss"),
              .norms = logged(trainer.state(), "grad_norm"),
              .weights = weights_of(trainer.session()),
              .sharded = sharded_parameters(trainer.session()),
              .group_size = trainer.session().options().step.ranks.group_size(),
              .planned_bytes = trainer.forecast().arena_bytes(),
              .measured_bytes = trainer.session().executor().resident_arena_bytes(),
              .sent_bytes = ranks ? ranks->sent_bytes() : 0,
              .planned_sent_bytes = trainer.session().sent_bytes_in_step(ranks ? ranks->rank() : 0)});
       }))
    runs.push_back(run_of(text));
  join_weights(runs);
  return runs;
}

inline std::vector<RankRun> train_on(int32_t size, const TrainingArguments& args, const Dataset& samples,
                                     const std::function<void(Trainer&)>& at_end = {}) {
  return train_model_on(BertForSequenceClassification(tiny_bert(0.1F)), size, args, samples, at_end);
}

// The same effective batch on one rank: its micro-batches one after the other.
inline TrainingArguments on_one_rank(TrainingArguments args, int32_t ranks) {
  args.gradient_accumulation_steps *= ranks;
  return args;
}

// Roundings behind a logit of a model: to fp32, and to half precision where that is what is stored.
struct LogitRoundings {
  double single = kTinyBertRoundings;
  double half = kTinyBertHalfRoundings;
};

// A gradient has the roundings of forward and backward, and of the sum over tokens; a step adds no more than its own.
inline double bound(size_t steps, double magnitude, DType dtype, const LogitRoundings& logit = {}) {
  const double roundings = dtype == DType::kF32 ? 2 * logit.single + 8 * 20 : 2 * logit.half;
  return rounding_error(static_cast<double>(steps) * roundings, magnitude, dtype);
}

inline void expect_alike(const RankRun& one, const RankRun& many, const std::string& what, DType dtype,
                         const LogitRoundings& logit = {}) {
  ASSERT_EQ(one.losses.size(), many.losses.size()) << what;
  ASSERT_EQ(one.norms.size(), many.norms.size()) << what;
  for (size_t i = 0; i < one.losses.size(); ++i)
    EXPECT_NEAR(one.losses[i], many.losses[i], bound(i + 1, one.losses[i], dtype, logit))
        << what << ", step " << i + 1;
  for (size_t i = 0; i < one.norms.size(); ++i) {
    ASSERT_EQ(std::isfinite(one.norms[i]), std::isfinite(many.norms[i])) << what << ", step " << i + 1;
    if (!std::isfinite(one.norms[i])) continue;  // a step that the loss scale skipped
    EXPECT_NEAR(one.norms[i], many.norms[i], bound(i + 1, one.norms[i], dtype, logit))
        << what << ", step " << i + 1;
  }
  for (const auto& [name, values] : one.weights) {
    const std::vector<float>& others = many.weights.at(name);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(values[i], others[i], bound(one.losses.size(), 1, dtype, logit))
          << what << ", " << name << "[" << i << "]";
    }
  }
}

inline void expect_same_weights(const NamedWeights& a, const NamedWeights& b, const std::string& what) {
  for (const auto& [name, values] : a) EXPECT_TRUE(values == b.at(name)) << what << ": " << name;
}

// What a rank of local SGD tells each other of its losses, which no plan counts (OwnLosses of TrainingLoop): a sum and three
// counts.
inline constexpr int64_t kToldLossesBytes = sizeof(double) + 3 * sizeof(int64_t);

// A step sends what is planned, and `unplanned_bytes`. Returns the runs of five steps.
inline std::vector<RankRun> expect_model_sends_as_planned(const Model& model, int32_t size,
                                                          TrainingArguments args, const Dataset& samples,
                                                          const std::string& what,
                                                          int64_t unplanned_bytes = 0) {
  args.max_steps = 2;
  const std::vector<RankRun> two = train_model_on(model, size, args, samples);
  args.max_steps = 5;
  std::vector<RankRun> five = train_model_on(model, size, args, samples);
  const double rounding = args.local_sgd_steps > 1 ? 1 : 0;  // of a mean of three steps
  for (size_t rank = 0; rank < two.size(); ++rank) {
    EXPECT_NEAR(static_cast<double>(five[rank].sent_bytes - two[rank].sent_bytes),
                static_cast<double>(3 * (five[rank].planned_sent_bytes + unplanned_bytes)), rounding)
        << "rank " << rank << " of " << size << ", " << what;
  }
  return five;
}

inline std::vector<RankRun> expect_sends_as_planned(int32_t size, const TrainingArguments& args,
                                                    const Dataset& samples, const std::string& what) {
  return expect_model_sends_as_planned(BertForSequenceClassification(tiny_bert(0.1F)), size, args, samples,
                                       what);
}

// Two ranks that take samples in their order, for three windows. Rank 1 has no target in the first, and no rank in the second.
inline TrainingArguments silent_arguments(int64_t accumulated = 1) {
  TrainingArguments args = rank_arguments();
  args.train_sampling_strategy = "sequential";
  args.gradient_accumulation_steps = accumulated;
  args.zero_persistence_threshold = 0;
  args.max_steps = 3;
  return args;
}

inline int64_t samples_of_windows(const TrainingArguments& args, int64_t windows) {
  return windows * 2 * args.gradient_accumulation_steps * args.per_device_train_batch_size;
}

// Whether a sample of such a run has no target.
inline bool is_silent(const TrainingArguments& args, int64_t sample) {
  const int64_t window = sample / samples_of_windows(args, 1);
  return window == 1 || (window == 0 && sample / args.per_device_train_batch_size % 2 == 1);
}

// The mean loss of the samples' targets before training.
inline double untrained_loss(const Model& model, const Dataset& samples) {
  TrainingArguments args = quiet_arguments();
  args.per_device_eval_batch_size = samples.size();  // a mean of batches would count samples
  return metric_number(Trainer(model, args, {}, samples).evaluate().at("eval_loss"));
}

// A loss is the sum of losses of all ranks ÷ the number of their targets, and nothing moves where there is none, at each stage.
// `first_window`: the samples of the first step.
inline void expect_divides_by_all_targets(const Model& model, const TrainingArguments& silent,
                                          const Dataset& samples, const Dataset& first_window,
                                          const LogitRoundings& logit) {
  TrainingArguments args = silent;
  const double loss = untrained_loss(model, first_window);
  const RankRun one = train_model_on(model, 1, on_one_rank(args, 2), samples)[0];
  for (const int64_t stage : {0, 1, 2, 3}) {
    const std::string what =
        fmt::format("stage {}, {} micro-batches", stage, args.gradient_accumulation_steps);
    args.zero_stage = stage;
    const auto run = [&](int64_t steps) {
      args.max_steps = steps;
      return train_model_on(model, 2, args, samples)[0];
    };
    const RankRun first = run(1), second = run(2), all = run(3);
    EXPECT_NEAR(all.losses.at(0), loss, bound(1, loss, DType::kF32, logit)) << what;
    EXPECT_EQ(all.losses.at(1), 0) << what;
    EXPECT_EQ(all.norms.at(1), 0) << what;
    EXPECT_GT(all.losses.at(2), 0) << what;
    expect_same_weights(first.weights, second.weights, what);
    expect_alike(one, all, what, DType::kF32, logit);
  }
}

// A setting of a run, by name.
struct Form {
  std::string name;
  std::function<void(TrainingArguments&)> set;
  DType dtype = DType::kF32;
};

}  // namespace shoehorn::test_support
