#include "lab/quality_rungs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "arguments/argument_table.h"
#include "base/error.h"
#include "lab/ladder_rungs.h"

namespace shoehorn {
namespace {

std::vector<std::string> names_of(const std::vector<QualityRung>& rungs) {
  std::vector<std::string> names;
  for (const QualityRung& rung : rungs) names.push_back(rung.name);
  return names;
}

TrainingArguments parsed(const QualityBase& base, const QualityRung& rung) {
  std::vector<std::string> words = {"--model_name_or_path",
                                    "m",
                                    "--train_file",
                                    "t.csv",
                                    "--per_device_train_batch_size",
                                    std::to_string(base.batch_size),
                                    "--learning_rate",
                                    std::to_string(base.learning_rate)};
  words.insert(words.end(), rung.flags.begin(), rung.flags.end());
  return parse_arguments(Command::kTrain, words).arguments;
}

TEST(QualityRungs, AreTrainsFlagsAndDiffer) {
  const QualityBase base{.batch_size = 16, .learning_rate = 1e-3};
  std::set<std::string> names;
  std::set<std::vector<std::string>> flags;
  for (const QualityRung& rung : quality_rungs(base)) {
    EXPECT_TRUE(names.insert(rung.name).second) << rung.name;
    EXPECT_TRUE(flags.insert(rung.flags).second) << rung.name;
    EXPECT_NO_THROW(parsed(base, rung)) << rung.name;
    EXPECT_EQ(rung.promise == Promise::kNothing, rung.equals.empty()) << rung.name;
    EXPECT_TRUE(rung.equals.empty() || names.contains(rung.equals))
        << rung.name << " stands behind what it equals";
  }
  EXPECT_EQ(quality_rungs(base)[0].name, "reference");
  EXPECT_TRUE(quality_rungs(base)[0].flags.empty());
}

// The flags of a rung besides batches and learning rates, which each benchmark has its own of.
std::set<std::string> techniques(const std::vector<std::string>& flags) {
  std::set<std::string> all;
  for (size_t at = 0; at < flags.size(); ++at) {
    std::string text = flags[at];
    while (at + 1 < flags.size() && !flags[at + 1].starts_with("--")) text += " " + flags[++at];
    const bool is_of_batch =
        text.find("batch_size") != std::string::npos || text.starts_with("--learning_rate") ||
        text.starts_with("--gradient_accumulation_steps") || text.starts_with("--scale_learning_rate");
    if (text == "--optim adamw_bnb_8bit") text = "--optim adamw_8bit";
    if (!is_of_batch) all.insert(text);
  }
  return all;
}

// A rung of both benchmarks has one name, and a name means one rung.
TEST(QualityRungs, AreNamedAsTheLaddersAre) {
  int64_t same = 0;
  for (const QualityRung& rung : quality_rungs({})) {
    for (const LadderRung& other : ladder_rungs()) {
      const bool is_same = techniques(rung.flags) == techniques(other.flags);
      if (techniques(rung.flags).empty()) continue;
      EXPECT_EQ(rung.name == other.name, is_same) << rung.name << " " << other.name;
      same += is_same ? 1 : 0;
    }
  }
  EXPECT_GE(same, 10);
}

// What is promised to give the same numbers has the same effective batch, learning rate, optimizer and
// precision.
TEST(QualityRungs, APromiseIsOfTheSameTraining) {
  const QualityBase base{.batch_size = 8, .learning_rate = 1e-3};
  const std::vector<QualityRung> rungs = quality_rungs(base);
  for (const QualityRung& rung : rungs) {
    if (rung.promise == Promise::kNothing) continue;
    const auto other =
        std::find_if(rungs.begin(), rungs.end(), [&](const auto& r) { return r.name == rung.equals; });
    const TrainingArguments a = parsed(base, rung);
    const TrainingArguments b = parsed(base, *other);
    EXPECT_EQ(effective_batch_size(a), effective_batch_size(b)) << rung.name;
    EXPECT_EQ(scaled_learning_rate(a), scaled_learning_rate(b)) << rung.name;
    EXPECT_EQ(a.optim, b.optim) << rung.name;
    EXPECT_EQ(a.bf16, b.bf16) << rung.name;
    EXPECT_EQ(a.fp16, b.fp16) << rung.name;
    EXPECT_EQ(a.max_grad_norm, b.max_grad_norm) << rung.name;
    if (rung.promise == Promise::kEveryBit) {
      EXPECT_EQ(a.gradient_accumulation_steps, b.gradient_accumulation_steps) << rung.name;
    }
  }
}

TEST(QualityRungs, LearningRatesFollowTheBatch) {
  const QualityBase base{.batch_size = 16, .learning_rate = 1e-3};
  std::map<std::string, double> rates;
  for (const QualityRung& rung : quality_rungs(base))
    rates[rung.name] = scaled_learning_rate(parsed(base, rung));
  EXPECT_DOUBLE_EQ(rates["half_batch"], 5e-4);
  EXPECT_DOUBLE_EQ(rates["fourfold_batch"], 4e-3);
  EXPECT_DOUBLE_EQ(rates["fourfold_batch_sqrt"], 2e-3);
  EXPECT_DOUBLE_EQ(rates["lion"], 1e-4);
  EXPECT_DOUBLE_EQ(rates["sgd"], 0.2);
  EXPECT_DOUBLE_EQ(rates["lomo"], 2);
  EXPECT_DOUBLE_EQ(rates["adalomo"], rates["adafactor"]);
}

TEST(QualityRungs, WithoutMastersAndWithEmbeddingsIn8Bits) {
  std::map<std::string, TrainingArguments> rungs;
  for (const QualityRung& rung : quality_rungs({})) rungs[rung.name] = parsed({}, rung);
  for (const auto& [name, args] : rungs) {
    const bool is_without = name == "bf16_no_master" || name == "bf16_8bit_no_master" ||
                            name == "exact_bf16_8bit_embeddings_no_master";
    EXPECT_EQ(args.master_weights == "none", is_without) << name;
    const bool is_8_bits = name == "8bit_embeddings" || name == "exact_bf16_8bit_embeddings_no_master";
    EXPECT_EQ(args.optim_args.contains("embedding_bits"), is_8_bits) << name;
  }
  EXPECT_EQ(rungs["bf16_8bit_no_master"].optim, rungs["8bit"].optim);
}

// Its flags are those of the ladder's, but for the batch and another name of the same optimizer.
TEST(QualityRungs, TheLowestIsTheLaddersLowest) {
  const QualityBase base{.batch_size = 4};
  const QualityRung ours = choose_quality_rungs(base, {"exact_bf16_8bit_embeddings_no_master"}).back();
  const LadderRung ladder = choose_rungs({"exact_bf16_8bit_embeddings_no_master"}).front();
  const TrainingArguments a = parsed(base, ours);
  const TrainingArguments b = parsed(base, {{ladder.name, ladder.setting, ladder.flags}});
  EXPECT_EQ(a.per_device_train_batch_size, b.per_device_train_batch_size);
  EXPECT_EQ(a.gradient_accumulation_steps, b.gradient_accumulation_steps);
  EXPECT_EQ(a.gradient_checkpointing, b.gradient_checkpointing);
  EXPECT_EQ(a.accumulation_order, b.accumulation_order);
  EXPECT_EQ(a.update_in_backward, b.update_in_backward);
  EXPECT_EQ(a.max_grad_norm, b.max_grad_norm);
  EXPECT_EQ(a.bf16, b.bf16);
  EXPECT_EQ(a.master_weights, b.master_weights);
  EXPECT_EQ(a.optim, "adamw_8bit");
  EXPECT_EQ(b.optim, "adamw_bnb_8bit");
  EXPECT_EQ(a.optim_args, b.optim_args);
}

TEST(QualityRungs, ChooseBringsWhatIsComparedWith) {
  EXPECT_EQ(names_of(choose_quality_rungs({}, {"exact", "bf16"})),
            (std::vector<std::string>{"reference", "unclipped", "exact", "bf16"}));
  EXPECT_EQ(choose_quality_rungs({}, {}).size(), quality_rungs({}).size());
  EXPECT_THROW(choose_quality_rungs({}, {"bf17"}), UserError);
  EXPECT_THROW(quality_rungs({.batch_size = 6}), UserError);
}

TEST(QualityRungs, FlagsThatTheySet) {
  const std::vector<std::string> flags = flags_of_quality_rungs();
  const auto has = [&flags](const char* name) {
    return std::find(flags.begin(), flags.end(), name) != flags.end();
  };
  for (const char* name : {"bf16", "optim", "optim_args", "master_weights", "gradient_accumulation_steps",
                           "max_grad_norm", "scale_learning_rate"})
    EXPECT_TRUE(has(name)) << name;
  EXPECT_FALSE(has("learning_rate"));
  EXPECT_FALSE(has("per_device_train_batch_size"));
  for (const std::string& name : flags) EXPECT_NE(find_argument(name), nullptr) << name;
}

}  // namespace
}  // namespace shoehorn
