// What ranks send by MPI, as MPI's profiling interface counts it (mpi_counter.cc): what `plan` says before, and what the
// literature says of each method. Skipped where there is no MPI.
#include <fmt/ranges.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "beside_program.h"
#include "cli_support.h"
#include "environment_count.h"
#include "io/safetensors.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

constexpr int64_t kSteps = 3;  // that are counted

class MpiBytes : public CliTest {
 protected:
  void SetUp() override {
    if (kIsSanitized) GTEST_SKIP() << "a sanitizer has to be loaded before all else";
    if (!fs::exists(counter()) || !has_mpi()) GTEST_SKIP() << kNoMpi;
  }

  static fs::path counter() { return beside_program("tests") / "libmpi_counter.so"; }

  // The bytes of the model's weights.
  int64_t weights_bytes() const {
    int64_t bytes = 0;
    const SafetensorsFile file = SafetensorsFile::open(model() / "model.safetensors");
    for (const TensorEntry& entry : file.tensors()) bytes += entry.bytes;
    return bytes;
  }

  // `more`: "--optim adafactor", and the like.
  static std::vector<std::string> method(int64_t stage, const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "--zero_stage", std::to_string(stage),    "--zero_persistence_threshold",  "0", "--save_strategy",
        "no",           "--overwrite_output_dir", "--per_device_train_batch_size", "2"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  // What each rank has sent in a run of so many steps, from its start to its end.
  std::vector<int64_t> sent_in(int64_t steps, int64_t ranks, int64_t stage,
                               const std::vector<std::string>& more = {}) const {
    const fs::path counts = path("counts");
    setenv("SHOEHORN_MPI_COUNTS", counts.c_str(), 1);
    setenv("LD_PRELOAD", counter().c_str(), 1);
    std::vector<std::string> words = {"launch", "--nproc_per_node", std::to_string(ranks)};
    for (const std::string& word : train_words(method(stage, more))) words.push_back(word);
    words.insert(words.end(), {"--max_steps", std::to_string(steps), "--logging_steps", "100"});
    const ProgramRun run = this->run(words);
    unsetenv("LD_PRELOAD");
    unsetenv("SHOEHORN_MPI_COUNTS");
    EXPECT_EQ(run.exit_code, 0) << run.output << run.error;
    std::vector<int64_t> sent;
    int64_t all_sent = 0, all_received = 0;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      std::ifstream file(counts.string() + "." + std::to_string(rank));
      int64_t received = 0;
      file >> sent.emplace_back() >> received;
      EXPECT_TRUE(file) << "rank " << rank << " counted nothing";
      all_sent += sent.back();
      all_received += received;
    }
    EXPECT_EQ(all_sent, all_received);
    return sent;
  }

  // By a rank in a step.
  int64_t planned(int64_t ranks, int64_t stage, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = train_words(method(stage, more));
    words[0] = "plan";
    words.insert(words.end(), {"--world_size", std::to_string(ranks), "--json"});
    const ProgramRun run = this->run(words);
    EXPECT_EQ(run.exit_code, 0) << run.error;
    return nlohmann::json::parse(run.output).at("sent_bytes_in_step").get<int64_t>();
  }
};

// Of N ranks and Ψ bytes of weights: data parallel 2 Ψ (N - 1) / N a rank, stages 1 and 2 as much, stage 3 at most 3 Ψ (N - 1) / N
// (Rajbhandari et al., 2020). Beside them go the loss, the norm where gradients are cut, and a word about stops, all of them planned.
TEST_F(MpiBytes, AreWhatThePlanAndTheLiteratureSay) {
  const int64_t weights = weights_bytes();
  for (const int64_t ranks : {2, 3, 4}) {
    const int64_t others = ranks - 1;
    const int64_t stops = others * static_cast<int64_t>(sizeof(int));
    const int64_t loss = 2 * others * static_cast<int64_t>(sizeof(float));
    const int64_t norm = 2 * others * static_cast<int64_t>(sizeof(double));
    for (const int64_t stage : {0, 1, 2, 3}) {
      SCOPED_TRACE(fmt::format("stage {} on {} ranks", stage, ranks));
      const std::vector<int64_t> few = sent_in(2, ranks, stage);
      const std::vector<int64_t> more = sent_in(2 + kSteps, ranks, stage);
      ASSERT_EQ(few.size(), more.size());
      EXPECT_EQ(more[0] - few[0], kSteps * planned(ranks, stage)) << "as planned";
      int64_t in_a_step = -ranks * stops;
      for (size_t rank = 0; rank < few.size(); ++rank) in_a_step += (more[rank] - few[rank]) / kSteps;
      if (stage == 0) {
        EXPECT_EQ(in_a_step, 2 * others * weights + loss);
      } else if (stage < 3) {
        EXPECT_EQ(in_a_step, 2 * others * weights + loss + norm);
      } else {
        EXPECT_GT(in_a_step, 2 * others * weights + loss + norm);
        EXPECT_LE(in_a_step, 3 * others * weights + loss + norm);
      }
    }
  }
}

// Of two micro-batches the first exchanges nothing where gradients are whole; from stage 2 on each scatters its own, and stage 3
// gathers weights for each.
TEST_F(MpiBytes, CountMicroBatches) {
  constexpr int64_t kRanks = 3;
  const int64_t once = weights_bytes() * (kRanks - 1) / kRanks;  // weights or gradients to or from all
  const std::vector<std::string> accumulated = {"--gradient_accumulation_steps", "2"};
  for (const int64_t stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(fmt::format("stage {}", stage));
    const std::vector<int64_t> few = sent_in(2, kRanks, stage, accumulated);
    const std::vector<int64_t> more = sent_in(2 + kSteps, kRanks, stage, accumulated);
    const int64_t in_plan = planned(kRanks, stage, accumulated);
    EXPECT_EQ(more.at(0) - few.at(0), kSteps * in_plan);
    const int64_t for_the_first = in_plan - planned(kRanks, stage);
    if (stage < 2) {
      EXPECT_EQ(for_the_first, 0);
    } else if (stage == 2) {
      EXPECT_NEAR(static_cast<double>(for_the_first), static_cast<double>(once), once / 50.)
          << "but for padding";
    } else {
      EXPECT_GT(for_the_first, 2 * once);
      EXPECT_LE(for_the_first, 3 * once + once / 50) << "gathers in forward and backward, and the scatter";
    }
  }
}

// Adafactor's sums are in the plan, too.
TEST_F(MpiBytes, CountAdafactorsSums) {
  constexpr int64_t kRanks = 3;
  const std::vector<std::string> adafactor = {"--optim", "adafactor"};
  for (const int64_t stage : {1, 2, 3}) {
    const std::vector<int64_t> few = sent_in(2, kRanks, stage, adafactor);
    const std::vector<int64_t> more = sent_in(2 + kSteps, kRanks, stage, adafactor);
    const int64_t in_plan = planned(kRanks, stage, adafactor);
    EXPECT_EQ(more.at(0) - few.at(0), kSteps * in_plan) << stage;
    EXPECT_GT(in_plan, planned(kRanks, stage)) << stage;
  }
}

// DataParallel on N ranks: N - 1 of them send the weights on, N - 1 the gradients, and losses there and back; the first sends the
// others their samples.
TEST_F(MpiBytes, CountWhatReplicasSend) {
  const std::vector<std::string> replicas = {"--parallel_mode", "dp"};
  for (const int64_t ranks : {2, 3}) {
    const int64_t others = ranks - 1;
    const int64_t stops = others * static_cast<int64_t>(sizeof(int));
    const std::vector<int64_t> few = sent_in(2, ranks, 0, replicas);
    const std::vector<int64_t> more = sent_in(2 + kSteps, ranks, 0, replicas);
    EXPECT_EQ(more.at(0) - few.at(0), kSteps * planned(ranks, 0, replicas)) << ranks;
    const int64_t loss = sizeof(float);
    EXPECT_EQ(more.back() - few.back(), kSteps * (weights_bytes() + loss + stops))
        << "gradients, of the last rank";
    EXPECT_GT(more[0] - few[0], kSteps * (weights_bytes() + loss + stops))
        << "weights and samples, of the first";
  }
}

// Of 2 groups of 2: within a group as ZeRO of 2 ranks, and between groups a half of the gradients, there and back.
TEST_F(MpiBytes, CountWhatGroupsSend) {
  constexpr int64_t kRanks = 4;
  const int64_t stops = (kRanks - 1) * static_cast<int64_t>(sizeof(int));
  const std::vector<std::string> in_groups = {"--zero_group_size", "2"};
  for (const int64_t stage : {2, 3}) {
    const std::vector<int64_t> few = sent_in(2, kRanks, stage, in_groups);
    const std::vector<int64_t> more = sent_in(2 + kSteps, kRanks, stage, in_groups);
    EXPECT_EQ(more.at(0) - few.at(0), kSteps * planned(kRanks, stage, in_groups)) << stage;
    int64_t in_a_step = -kRanks * stops;
    for (size_t rank = 0; rank < few.size(); ++rank) in_a_step += (more[rank] - few[rank]) / kSteps;
    const int64_t loss = 2 * (kRanks - 1) * static_cast<int64_t>(sizeof(float));
    const int64_t norm = kRanks * static_cast<int64_t>(sizeof(double));
    const int64_t least =
        2 * 2 * weights_bytes() + 2 * weights_bytes();  // within two groups, and between them
    if (stage == 2) {
      EXPECT_GE(in_a_step, least + loss + norm);
      EXPECT_LT(in_a_step, least + least / 50 + loss + norm) << "padding of parts goes around between groups";
    } else {
      EXPECT_GT(in_a_step, least + loss + norm);
    }
  }
}

// Of local SGD every second step sends, all of it; the plan has the average, which is rounded to a byte. Behind it ranks tell each other
// their losses, a sum and three counts, which no plan has, for they are told whenever something is logged, too.
TEST_F(MpiBytes, CountLocalSgd) {
  constexpr int64_t kLocalSteps = 2;
  constexpr int64_t kToldLossesBytes = sizeof(double) + 3 * sizeof(int64_t);
  const std::vector<std::string> local = {"--local_sgd_steps", std::to_string(kLocalSteps)};
  for (const int64_t ranks : {2, 3}) {
    const std::vector<int64_t> few = sent_in(kLocalSteps, ranks, 0, local);
    const std::vector<int64_t> more = sent_in(kLocalSteps * (1 + kSteps), ranks, 0, local);
    const int64_t in_plan = planned(ranks, 0, local);
    const int64_t told = (ranks - 1) * kToldLossesBytes;
    EXPECT_NEAR(static_cast<double>(more.at(0) - few.at(0)),
                static_cast<double>(kSteps * (kLocalSteps * in_plan + told)), kSteps)
        << ranks;
    EXPECT_LT(in_plan, planned(ranks, 0) * 2 / 3)
        << "half of what data parallel sends in each step, and little more";
  }
}

// A run of ranks drawn at random, of what goes together.
std::vector<std::string> drawn_layout(std::mt19937& random, int64_t ranks, int64_t stage) {
  const auto one_of = [&](const std::vector<std::vector<std::string>>& choices) {
    return choices[random() % choices.size()];
  };
  const bool accumulates = random() % 2 == 0;
  const std::vector<std::vector<std::string>> drawn = {
      accumulates ? std::vector<std::string>{"--gradient_accumulation_steps", "2"}
                  : std::vector<std::string>{},
      accumulates ? one_of({{}, {"--accumulation_order", "layer_major"}}) : std::vector<std::string>{},
      one_of({{}, {"--bf16"}, {"--fp16"}, {"--bf16", "--master_weights", "none"}}),
      one_of({{}, {"--optim", "sgd"}, {"--optim", "lion_32bit"}, {"--optim", "adamw_bnb_8bit"}}),
      one_of({{}, {"--gradient_checkpointing"}}),
      one_of({{}, {"--lora_rank", "4"}}),
      one_of({{}, {"--max_grad_norm", "0"}}),
      ranks == 4 && stage > 1 ? one_of({{}, {"--zero_group_size", "2"}}) : std::vector<std::string>{}};
  std::vector<std::string> words;
  for (const std::vector<std::string>& some : drawn) words.insert(words.end(), some.begin(), some.end());
  return words;
}

// SHOEHORN_MPI_LAYOUTS: how many.
TEST_F(MpiBytes, OfLayoutsDrawnAtRandomAreAsPlanned) {
  const int layouts = environment_count("SHOEHORN_MPI_LAYOUTS", 8, 1);
  std::mt19937 random(7);
  for (int i = 0; i < layouts; ++i) {
    const int64_t ranks = 2 + static_cast<int64_t>(random() % 3);
    const int64_t stage = i % 4;
    const std::vector<std::string> layout = drawn_layout(random, ranks, stage);
    SCOPED_TRACE(fmt::format("{} ranks, stage {}, {}", ranks, stage, fmt::join(layout, " ")));
    const std::vector<int64_t> few = sent_in(2, ranks, stage, layout);
    const std::vector<int64_t> more = sent_in(2 + kSteps, ranks, stage, layout);
    EXPECT_EQ(more.at(0) - few.at(0), kSteps * planned(ranks, stage, layout));
  }
}

}  // namespace
}  // namespace shoehorn
