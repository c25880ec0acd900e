// Training on several ranks, which are processes of one thread, against one rank with the same micro-batches: dropout
// masks, samples and the number that losses divide by are the same, so that only the order of the sums of gradients
// differs.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error_testing.h"
#include "exec/null/null_backend.h"
#include "io/file.h"
#include "io/json_file.h"
#include "io/test_directory.h"
#include "train/rank_runs_testing.h"
#include "train/results.h"

namespace shoehorn {
namespace {

using namespace test_support;
namespace fs = std::filesystem;

// 28 samples are 7 micro-batches an epoch, so that the last window has fewer than there are ranks, or one that is short.
TEST_F(Ranks, TrainAsOneRankDoes) {
  const std::vector<Form> forms = {
      {"one micro-batch", [](TrainingArguments&) {}},
      {"accumulated", [](TrainingArguments& args) { args.gradient_accumulation_steps = 2; }},
      {"accumulated over three", [](TrainingArguments& args) { args.gradient_accumulation_steps = 3; }},
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
      {"adapters",
       [](TrainingArguments& args) {
         args.lora_rank = 2;
         args.lora_dropout = 0.1;
       }},
      {"bf16", [](TrainingArguments& args) { args.bf16 = true; }, DType::kBF16},
      // The first scales are too large: all ranks skip those steps together.
      {"fp16",
       [](TrainingArguments& args) {
         args.fp16 = true;
         args.initial_scale_power = 20;
       },
       DType::kF16},
  };
  const Dataset samples = tiny_samples(28, 5);
  for (const Form& form : forms) {
    for (const int32_t size : {2, 4}) {
      TrainingArguments args = rank_arguments();
      form.set(args);
      const RankRun one = train_on(1, on_one_rank(args, size), samples)[0];
      const std::vector<RankRun> many = train_on(size, args, samples);
      const std::string what = form.name + " on " + std::to_string(size) + " ranks";
      expect_alike(one, many[0], what, form.dtype);
      for (const RankRun& run : many) {
        expect_same_weights(many[0].weights, run.weights, what);
        EXPECT_EQ(run.losses, many[0].losses) << what;
        EXPECT_EQ(run.measured_bytes, run.planned_bytes) << what;
      }
    }
  }
}

// An effective batch whose micro-batches the ranks do not divide: some have one less in each step.
TEST_F(Ranks, TrainAsOneRankWhereTheyDoNotDivideTheBatch) {
  const Dataset samples = tiny_samples(28, 5);
  for (const char* order : {"micro_batch", "layer_major"}) {
    for (const int64_t stage : {0, 1, 2, 3}) {
      TrainingArguments args = rank_arguments();
      args.accumulation_order = order;
      args.effective_batch_size = 16;  // four micro-batches
      args.gradient_accumulation_steps = 4;
      const RankRun one = train_on(1, args, samples)[0];
      args.gradient_accumulation_steps = 2;
      args.zero_stage = stage;
      const std::vector<RankRun> many = train_on(3, args, samples);
      const std::string what = fmt::format("{}, stage {}", order, stage);
      expect_alike(one, many[0], what, DType::kF32);
      for (const RankRun& run : many) expect_same_weights(many[0].weights, run.weights, what);
    }
  }
}

// A rank without a micro-batch adds nothing, and stays in step.
TEST_F(Ranks, MayBeMoreThanMicroBatches) {
  TrainingArguments args = rank_arguments(1);
  for (const int64_t accumulated : {1, 2}) {
    args.gradient_accumulation_steps = accumulated;
    const Dataset samples = tiny_samples(3, 5);
    const RankRun one = train_on(1, on_one_rank(args, 4), samples)[0];
    const std::vector<RankRun> many = train_on(4, args, samples);
    expect_alike(one, many[0], "3 samples", DType::kF32);
    for (const RankRun& run : many) expect_same_weights(many[0].weights, run.weights, "3 samples");
  }
}

TEST_F(Ranks, DivideByTheTargetsOfAllWhereOneHasNone) {
  for (const int64_t accumulated : {1, 2}) {
    const TrainingArguments args = silent_arguments(accumulated);
    const auto samples = [&](int64_t windows) {
      return tiny_samples(samples_of_windows(args, windows), 5, 20,
                          [&](int64_t sample) { return is_silent(args, sample); });
    };
    expect_divides_by_all_targets(BertForSequenceClassification(tiny_bert()), args, samples(3), samples(1),
                                  {});
  }
}

// The same bits each time.
TEST_F(Ranks, RepeatThemselves) {
  TrainingArguments args = rank_arguments();
  args.optim = "adamw_torch";
  args.learning_rate = 1e-3;
  const Dataset samples = tiny_samples(28, 5);
  const RankRun first = train_on(3, args, samples)[0];
  const RankRun again = train_on(3, args, samples)[0];
  EXPECT_EQ(first.losses, again.losses);
  expect_same_weights(first.weights, again.weights, "again");
}

// A step sends what its collectives say, and a word about stops. Gradients are sent once a step, however many
// micro-batches it has; small buckets send the same bytes.
TEST_F(Ranks, SendWhatTheStepSays) {
  const Dataset samples = tiny_samples(64, 5);
  for (const int64_t accumulated : {1, 2}) {
    for (const int32_t size : {2, 3}) {
      TrainingArguments args = rank_arguments();
      args.gradient_accumulation_steps = accumulated;
      expect_sends_as_planned(size, args, samples, fmt::format("{} micro-batches", accumulated));
    }
  }
}

// What one number of ranks saved another goes on from, and the same number with the same bits.
TEST_F(Ranks, ResumeOnAnotherNumberOfRanks) {
  const TestDirectory directory;
  const Dataset samples = tiny_samples(28, 5);
  const auto saving = [&](const char* name, int64_t accumulated) {
    TrainingArguments args = rank_arguments();
    args.gradient_accumulation_steps = accumulated;
    args.output_dir = (directory.path() / name).string();
    args.save_strategy = "steps";
    args.save_steps = 10;
    return args;
  };
  const auto resumed = [](TrainingArguments args, const std::filesystem::path& checkpoint) {
    args.resume_from_checkpoint = checkpoint.string();
    args.save_strategy = "no";
    return args;
  };
  const RankRun one = train_on(1, saving("one", 4), samples)[0];
  const RankRun two = train_on(2, saving("two", 2), samples)[0];
  const auto checkpoint = [&](const char* name) { return directory.path() / name / "checkpoint-10"; };
  const RankRun two_again = train_on(2, resumed(saving("two", 2), checkpoint("two")), samples)[0];
  expect_same_weights(two.weights, two_again.weights, "2 on 2");
  const auto last_losses = [](const RankRun& run) {
    RankRun last;
    last.losses.assign(run.losses.end() - 10, run.losses.end());
    last.weights = run.weights;
    return last;
  };
  const auto expect_goes_on = [&](const RankRun& run, int32_t size, int64_t accumulated, const char* name) {
    RankRun other = train_on(size, resumed(saving(name, accumulated), checkpoint(name)), samples)[0];
    other.norms.clear();
    other.losses.erase(other.losses.begin(), other.losses.end() - 10);
    expect_alike(last_losses(run), other, std::string(name) + " on " + std::to_string(size), DType::kF32);
  };
  expect_goes_on(two, 1, 4, "two");
  expect_goes_on(two, 4, 1, "two");
  expect_goes_on(one, 2, 2, "one");
}

// Batches are dealt, outputs are told: each rank has the metrics of one rank, to the bit. The last round has fewer batches
// than there are ranks, and a short one.
TEST_F(Ranks, EvaluateAsOneRankDoes) {
  const auto evaluate = [&](int32_t size) {
    return run_in_processes(size, [&](const std::shared_ptr<Communicator>& ranks) {
      const BertForSequenceClassification model(tiny_bert());
      TrainingArguments args = rank_arguments();
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
  const std::string one = evaluate(1)[0];
  EXPECT_NE(one.find("eval_accuracy"), std::string::npos);
  for (const int32_t size : {2, 4}) {
    for (const std::string& of_rank : evaluate(size)) EXPECT_EQ(of_rank, one) << size;
  }
}

// What a rank starts with; the second rank's is another.
struct RankStart {
  TrainingArguments args = rank_arguments();
  Dataset samples = tiny_samples(8, 5);
  Dataset validation = {};
  fs::path weights = {};
  fs::path working_directory = ".";
};

// What two ranks say, of which `change` makes the second.
std::vector<std::string> said_by_ranks(const RankStart& first,
                                       const std::function<void(RankStart&)>& change) {
  return run_in_processes(2, [&](const std::shared_ptr<Communicator>& ranks) -> std::string {
    const BertForSequenceClassification model(tiny_bert());
    RankStart start = first;
    if (!ranks->is_main()) change(start);
    fs::current_path(start.working_directory);
    try {
      Trainer(model, start.args, start.samples, start.validation, {.weights = start.weights, .ranks = ranks})
          .train();
    } catch (const UserError& refused) {
      return refused.what();
    }
    return "trains";
  });
}

void expect_refused(const RankStart& first, const std::string& what,
                    const std::function<void(RankStart&)>& change) {
  for (const std::string& error : said_by_ranks(first, change)) {
    EXPECT_EQ(error, "[ranks] expected " + what +
                         " to be the same on all ranks, got another on rank 1 than on rank 0");
  }
}

// Ranks of other arguments would wait for each other's messages for ever.
TEST_F(Ranks, RefuseOtherArgumentsAndData) {
  RankStart start;
  expect_refused(start, "--learning_rate", [](RankStart& other) { other.args.learning_rate = 0.2; });
  expect_refused(start, "the training data", [](RankStart& other) { other.samples = tiny_samples(8, 6); });
  start.args.eval_strategy = "steps";
  start.validation = tiny_samples(6, 7);
  expect_refused(start, "the validation data",
                 [](RankStart& other) { other.validation = tiny_samples(4, 7); });
}

// Hosts have directories of their own. Averages of the gradients of two models train neither.
TEST_F(Ranks, RefuseOtherWeightsAndCheckpoints) {
  TestDirectory directory;
  const BertForSequenceClassification model(tiny_bert());
  const auto saved = [&](const std::string& name, int64_t seed) {
    TrainingArguments args;
    args.seed = seed;
    Trainer(model, args, {}, tiny_samples(4, 5)).save_model(directory.path() / name);
    return directory.path() / name;
  };
  const fs::path other_weights = saved("other", 2);
  for (const int64_t stage : {0, 3}) {
    RankStart start;
    start.args.zero_stage = stage;
    start.weights = saved("model", 1);
    for (const std::string& said : said_by_ranks(start, [](RankStart&) {})) EXPECT_EQ(said, "trains");
    expect_refused(start, "the weights", [&](RankStart& other) { other.weights = other_weights; });
  }
  // The last checkpoints of two hosts that do not share their files.
  const auto host_with_checkpoint = [&](const std::string& name, int64_t step) {
    TrainingArguments args = rank_arguments(8);
    args.output_dir = (directory.path() / name / "out").string();
    args.save_strategy = "steps";
    args.save_steps = step;
    args.max_steps = step;
    Trainer(model, args, tiny_samples(8, 5)).train();
    return directory.path() / name;
  };
  RankStart start;
  start.args.output_dir = "out";
  start.args.max_steps = 4;
  start.args.resume_from_checkpoint = "true";
  start.working_directory = host_with_checkpoint("host", 1);
  const fs::path other_host = host_with_checkpoint("other_host", 2);
  expect_refused(start, "the step of the checkpoint",
                 [&](RankStart& other) { other.working_directory = other_host; });
}

// Parts of one checkpoint in two directories are none, and a best model of one host is not read on another. It is told before
// the first step.
TEST_F(Ranks, RefuseAnOutputDirectoryThatIsNotShared) {
  TestDirectory directory;
  for (const char* name : {"host", "other_host"}) fs::create_directories(directory.path() / name / "out");
  RankStart alike;
  alike.args.output_dir = "out";
  alike.args.save_strategy = "steps";
  alike.args.save_steps = 2;
  alike.args.max_steps = 2;
  alike.working_directory = directory.path() / "host";
  RankStart sharded = alike, alone = alike, best = alike;
  sharded.args.zero_stage = 1;
  alone.args.local_sgd_steps = 2;
  best.validation = tiny_samples(6, 7);
  best.args.eval_strategy = "steps";
  best.args.eval_steps = 2;
  best.args.load_best_model_at_end = true;
  const auto on_another_host = [&](RankStart& other) {
    other.working_directory = directory.path() / "other_host";
  };
  for (const RankStart& start : {sharded, alone, best}) {
    for (const std::string& error : said_by_ranks(start, on_another_host)) {
      EXPECT_EQ(
          error,
          "[--output_dir out] expected the directory of rank 0 on all ranks, which write or read parts of its "
          "checkpoints, got another on rank 1; give one on a file system that the hosts share");
    }
    EXPECT_TRUE(fs::is_empty(directory.path() / "host" / "out")) << "nothing is left of looking";
    for (const std::string& said : said_by_ranks(start, [](RankStart&) {})) EXPECT_EQ(said, "trains");
    fs::remove_all(directory.path() / "host" / "out");
    fs::create_directories(directory.path() / "host" / "out");
  }
  for (const std::string& said : said_by_ranks(alike, on_another_host)) EXPECT_EQ(said, "trains");
}

// Behind the last checkpoint the directory that ranks share is gone for this one.
class LosesTheDirectory : public TrainerCallback {
 public:
  void on_save(const TrainingArguments&, const TrainerState& state, TrainerControl&) override {
    if (state.global_step == state.max_steps) fs::current_path("/");
  }
};

// A rank's weights, of which it may have parts, and what it said, at the end of a run.
struct RankEnd {
  NamedWeights weights;
  std::string lines;
};

// Two ranks, each in its directory.
std::vector<RankEnd> ends_of_ranks(const TrainingArguments& args, const std::vector<fs::path>& directories,
                                   bool second_loses_it) {
  std::vector<RankEnd> ends;
  for (const std::string& text : run_in_processes(2, [&](const std::shared_ptr<Communicator>& ranks) {
         fs::current_path(directories.at(static_cast<size_t>(ranks->rank())));
         std::string lines;
         const BertForSequenceClassification model(tiny_bert());
         Trainer trainer(model, args, tiny_samples(8, 5), tiny_samples(6, 7),
                         {.on_line = [&](const std::string& line) { lines += line + "\n"; }, .ranks = ranks});
         if (second_loses_it && !ranks->is_main())
           trainer.add_callback(std::make_shared<LosesTheDirectory>());
         trainer.train();
         return nlohmann::json({{"weights", weights_of(trainer.session())}, {"lines", lines}}).dump();
       })) {
    const nlohmann::json end = nlohmann::json::parse(text);
    ends.push_back({end.at("weights").get<NamedWeights>(), end.at("lines").get<std::string>()});
  }
  return ends;
}

// The best model is read by all ranks or by none, whichever of them does not find it.
TEST_F(Ranks, LoadTheBestModelTogether) {
  for (const int64_t stage : {0, 2}) {
    const TestDirectory directory;
    const fs::path host = directory.path() / "host", other_host = directory.path() / "other_host";
    TrainingArguments args = rank_arguments();
    args.zero_stage = stage;
    args.max_steps = 4;
    args.eval_strategy = args.save_strategy = "steps";
    args.eval_steps = args.save_steps = 2;
    args.output_dir = "out";
    const auto run = [&](bool second_loses_it) {
      fs::remove_all(host);
      fs::create_directories(host / "out");
      return ends_of_ranks(args, {host, host}, second_loses_it);
    };
    const std::vector<RankEnd> last = run(false);
    args.load_best_model_at_end = true;
    const std::vector<RankEnd> best = run(false);
    for (const size_t rank : {0, 1}) {
      EXPECT_FALSE(best[rank].weights == last[rank].weights)
          << "the setting should make the last model worse than the best";
    }
    EXPECT_TRUE(contains(best[0].lines, "loaded the best model, of out/checkpoint-2"));
    const auto expect_last = [&](const std::vector<RankEnd>& ends, const std::string& why) {
      for (const size_t rank : {0, 1}) expect_same_weights(last[rank].weights, ends[rank].weights, why);
      EXPECT_TRUE(contains(ends[0].lines, "the weights are those of the last step: rank 1: " + why));
    };
    expect_last(run(true), "the best model, of out/checkpoint-2, is not whole (");
    // The checkpoint of a host that has the best one beside it, on another that has it alone.
    fs::create_directories(other_host / "out");
    fs::copy(host / "out" / "checkpoint-4", other_host / "out" / "checkpoint-4", fs::copy_options::recursive);
    args.resume_from_checkpoint = "out/checkpoint-4";
    args.output_dir = (directory.path() / "shared").string();
    expect_last(ends_of_ranks(args, {host, other_host}, false), "there is no checkpoint of the best model");
  }
}

// Messages go around on a lane of their own beside the backward, and a profile shows both.
TEST_F(Ranks, AreProfiledLaneByLane) {
  const TestDirectory directory;
  TrainingArguments args = rank_arguments();
  args.output_dir = directory.path().string();
  args.gradient_accumulation_steps = 2;
  args.max_steps = 4;
  args.profile = 3;
  const std::string table = run_in_processes(2, [&](const std::shared_ptr<Communicator>& ranks) {
    const BertForSequenceClassification model(tiny_bert());
    Trainer trainer(model, args, tiny_samples(64, 5), {}, {.ranks = ranks});
    Metrics metrics = trainer.train().metrics;
    add_profile_metrics(metrics, *trainer.profile());
    return format_profile(*trainer.profile()) + to_json(metrics).dump();
  })[0];
  EXPECT_NE(table.find("all_reduce, beside"), std::string::npos) << table;
  EXPECT_NE(table.find("waiting for messages"), std::string::npos) << table;
  // Of so small a model all gradients are one bucket, which is complete when the backward ends.
  EXPECT_NE(table.find("Messages beside the computation: "), std::string::npos) << table;
  for (const char* name : {kProfiledStepMetric, kDoneShareMetric, kEarlyShareMetric})
    EXPECT_NE(table.find(fmt::format("\"{}\":", name)), std::string::npos) << table;
  EXPECT_EQ(table.find(kHiddenShareMetric), std::string::npos) << table;
  struct Slice {
    double begin, end;
  };
  std::map<int64_t, std::vector<Slice>> lanes;  // by thread of the trace
  std::vector<std::string> threads;
  const nlohmann::json profile = read_json(directory.path() / "profile.json");
  for (const nlohmann::json& event : profile.at("traceEvents")) {
    if (event.at("name") == "thread_name") threads.push_back(event.at("args").at("name"));
    if (event.at("ph") != "X" || event.at("tid") == 0) continue;
    const double begin = event.at("ts");
    lanes[event.at("tid")].push_back({begin, begin + event.at("dur").get<double>()});
    if (event.at("tid") == 2) {
      EXPECT_EQ(event.at("name"), "all_reduce");
    }
  }
  EXPECT_EQ(threads, (std::vector<std::string>{"host", "lane 0: computing", "lane 1: messages"}));
  EXPECT_GE(lanes[2].size(), 3U) << "one a step";
  constexpr double kRounding = 0.002;  // of times in the file, in microseconds
  for (auto& [thread, slices] : lanes) {
    std::ranges::sort(slices, {}, &Slice::begin);
    for (size_t i = 1; i < slices.size(); ++i)
      EXPECT_GE(slices[i].begin, slices[i - 1].end - kRounding) << "of thread " << thread;
  }
}

// The memory of a host is that of its ranks together.
TEST_F(Ranks, PlanForTheirShareOfTheHost) {
  constexpr int64_t kAvailable = int64_t{1} << 34;
  for (const int32_t size : {1, 3}) {
    for (const std::string& budget : run_in_processes(size, [](const std::shared_ptr<Communicator>& ranks) {
           const BertForSequenceClassification model(tiny_bert());
           const Trainer trainer(
               model, rank_arguments(), tiny_samples(8, 5), {},
               {.backend = make_null_backend({.available_memory_bytes = kAvailable}), .ranks = ranks});
           return std::to_string(trainer.forecast().budget_bytes);
         }))
      EXPECT_EQ(budget, std::to_string(kAvailable / size));
  }
}

// The page of a run says who waited for whom.
TEST_F(Ranks, AreOnThePageOfTheRun) {
  const TestDirectory directory;
  TrainingArguments args = rank_arguments();
  args.output_dir = directory.path().string();
  args.report_to = {"html"};
  args.max_steps = 2;
  const auto page_of = [&](int32_t size) {
    run_in_processes(size, [&](const std::shared_ptr<Communicator>& ranks) {
      const BertForSequenceClassification model(tiny_bert());
      Trainer(model, args, tiny_samples(64, 5), {}, {.ranks = ranks}).train();
      return std::string();
    });
    return read_text_file(directory.path() / "report.html");
  };
  const std::vector<std::string> facts = {"a rank sends in a step", "waiting for messages, rank 0",
                                          "slowest rank"};
  const std::string of_two = page_of(2), of_one = page_of(1);
  for (const std::string& fact : facts) {
    EXPECT_NE(of_two.find(fact), std::string::npos) << fact;
    EXPECT_EQ(of_one.find(fact), std::string::npos) << fact;
  }
  EXPECT_EQ(of_two.find("between hosts"), std::string::npos) << "one host has both";
  args.ranks_per_host = 1;
  const std::string on_two_hosts = page_of(2);
  for (const char* fact : {"rank 0 sends within its host", "rank 0 sends between hosts, most of all"})
    EXPECT_NE(on_two_hosts.find(fact), std::string::npos) << fact;
}

// A plan for ranks may be made without them; training needs them.
TEST_F(Ranks, AreNeededToTrainOnSoMany) {
  const BertForSequenceClassification model(tiny_bert());
  TrainingArguments args = rank_arguments();
  args.world_size = 4;
  Trainer trainer(model, args, tiny_samples(28, 5));
  EXPECT_EQ(trainer.steps().update_steps_per_epoch, 2) << "7 micro-batches in steps of 4";
  EXPECT_GT(trainer.forecast().by_role.at("communication"), 0);
  try {
    trainer.train();
    FAIL() << "trained";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("shoehorn launch --nproc_per_node 4"), std::string::npos);
  }
}

}  // namespace
}  // namespace shoehorn
