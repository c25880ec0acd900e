// DataParallel (passes/replicas.h): the first rank has the samples, the weights and the update, and the others compute for it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/test_directory.h"
#include "train/rank_runs_testing.h"

namespace shoehorn {
namespace {

using namespace test_support;

using ReplicaRuns = Ranks;

TrainingArguments replica_arguments(int64_t micro_batch_size = 4) {
  TrainingArguments args = rank_arguments(micro_batch_size);
  args.parallel_mode = "dp";
  return args;
}

// Two terms have one sum, whichever way around, so that on two ranks the bits are those of ranks that each update.
TEST_F(ReplicaRuns, HaveTheBitsOfDataParallelOnTwoRanks) {
  const std::vector<Form> forms = {
      {"plain", [](TrainingArguments&) {}},
      {"AdamW", [](TrainingArguments& args) { args.optim = "adamw_torch"; }},
      {"recomputed", [](TrainingArguments& args) { args.gradient_checkpointing = true; }},
      {"adapters", [](TrainingArguments& args) { args.lora_rank = 2; }},
      {"frozen", [](TrainingArguments& args) { args.freeze = {"embeddings"}; }},
      {"bf16", [](TrainingArguments& args) { args.bf16 = true; }},
      {"workers", [](TrainingArguments& args) { args.dataloader_num_workers = 1; }},
  };
  const Dataset samples =
      tiny_samples(28, 5);  // 7 micro-batches: in an epoch's last step the second rank has none
  for (const Form& form : forms) {
    TrainingArguments args = replica_arguments();
    form.set(args);
    const std::vector<RankRun> replicas = train_on(2, args, samples);
    args.parallel_mode = "ddp";
    const RankRun each = train_on(2, args, samples)[0];
    EXPECT_EQ(replicas[0].losses, each.losses) << form.name;
    EXPECT_EQ(replicas[0].norms, each.norms) << form.name;
    expect_same_weights(replicas[0].weights, each.weights, form.name);
    EXPECT_EQ(replicas[1].losses, each.losses) << form.name << ": the sum goes to all";
  }
}

TEST_F(ReplicaRuns, TrainAsOneRankDoes) {
  const Dataset samples = tiny_samples(28, 5);
  for (const int32_t size : {3, 4}) {
    const TrainingArguments args = replica_arguments();
    const RankRun one = train_on(1, on_one_rank(args, size), samples)[0];
    expect_alike(one, train_on(size, args, samples)[0], std::to_string(size), DType::kF32);
  }
}

// The first has the optimizer's states besides; a step sends what is planned, and a word about stops.
TEST_F(ReplicaRuns, TakeAndSendWhatIsPlanned) {
  const Dataset samples = tiny_samples(64, 5);
  for (const int32_t size : {2, 3}) {
    TrainingArguments args = replica_arguments();
    args.optim = "adamw_torch";
    const std::vector<RankRun> runs = expect_sends_as_planned(size, args, samples, "replicas");
    for (size_t rank = 0; rank < runs.size(); ++rank)
      EXPECT_EQ(runs[rank].measured_bytes, runs[rank].planned_bytes) << rank;
    EXPECT_GT(runs[0].planned_bytes, runs[1].planned_bytes);
  }
}

// All ranks evaluate with the weights that the first has.
TEST_F(ReplicaRuns, EvaluateAsRanksThatUpdateDo) {
  const auto evaluate = [](const std::string& mode) {
    return run_in_processes(2, [&](const std::shared_ptr<Communicator>& ranks) {
      const BertForSequenceClassification model(tiny_bert());
      TrainingArguments args = replica_arguments();
      args.parallel_mode = mode;
      args.max_steps = 3;
      Trainer trainer(model, args, tiny_samples(28, 5), tiny_samples(22, 6), {.ranks = ranks});
      trainer.train();
      std::string text;
      for (const auto& [name, value] : trainer.evaluate()) {
        if (name.ends_with("_runtime") || name.ends_with("_per_second")) continue;
        text += fmt::format("{} {:a}\n", name, metric_number(value));
      }
      return text;
    });
  };
  const std::vector<std::string> replicas = evaluate("dp");
  EXPECT_NE(replicas[0].find("eval_loss"), std::string::npos);
  EXPECT_EQ(replicas, evaluate("ddp"));
}

// What the first rank saved all go on from, in this mode and in the other.
TEST_F(ReplicaRuns, ResumeInEitherMode) {
  const TestDirectory directory;
  const Dataset samples = tiny_samples(28, 5);
  TrainingArguments args = replica_arguments();
  args.optim = "adamw_torch";
  args.output_dir = (directory.path() / "saved").string();
  args.save_strategy = "steps";
  args.save_steps = 10;
  const RankRun whole = train_on(2, args, samples)[0];
  args.save_strategy = "no";
  args.resume_from_checkpoint = (directory.path() / "saved" / "checkpoint-10").string();
  for (const char* mode : {"dp", "ddp"}) {
    args.parallel_mode = mode;
    expect_same_weights(whole.weights, train_on(2, args, samples)[0].weights, mode);
  }
}

}  // namespace
}  // namespace shoehorn
