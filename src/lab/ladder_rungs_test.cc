#include "lab/ladder_rungs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "arguments/argument_table.h"
#include "base/error.h"

namespace shoehorn {
namespace {

std::string text_after(const std::vector<std::string>& flags, const std::string& flag,
                       const std::string& standard) {
  for (size_t at = 0; at + 1 < flags.size(); ++at) {
    if (flags[at] == flag) return flags[at + 1];
  }
  return standard;
}

TEST(LadderRungs, TheGuidesComeFirstInTheirOrder) {
  const std::vector<std::pair<double, int64_t>> measured = {{8.86, 14949},  {7.75, 8681},  {5.99, 6775},
                                                            {18.64, 13939}, {10.09, 7275}, {7.96, 12295},
                                                            {9.06, 4847},   {9.15, 13085}, {10.35, 5363}};
  for (size_t at = 0; at < ladder_rungs().size(); ++at) {
    const LadderRung& rung = ladder_rungs()[at];
    ASSERT_EQ(rung.guide.has_value(), at < measured.size()) << rung.name;
    if (!rung.guide) continue;
    EXPECT_EQ(rung.guide->samples_per_second, measured[at].first) << rung.name;
    EXPECT_EQ(rung.guide->memory_mib, measured[at].second) << rung.name;
  }
}

// The guides have everything in 8 bits; which bits embeddings have is in the setting of every such rung.
TEST(LadderRungs, EightBitRungsSayWhichBitsEmbeddingsHave) {
  int64_t of_8_bits = 0;
  for (const LadderRung& rung : ladder_rungs()) {
    if (text_after(rung.flags, "--optim", "") != "adamw_bnb_8bit") continue;
    const bool is_8 = text_after(rung.flags, "--optim_args", "") == "embedding_bits=8";
    EXPECT_TRUE(rung.setting.ends_with(is_8 ? " (embeddings 8)" : " (embeddings 32)")) << rung.setting;
    EXPECT_EQ(rung.name.find("8bit_embeddings") != std::string::npos, is_8) << rung.name;
    EXPECT_TRUE(is_8 || !rung.guide) << rung.name;
    of_8_bits += is_8 ? 1 : 0;
  }
  EXPECT_EQ(of_8_bits, 5);
}

TEST(LadderRungs, FlagsAreTrainsAndTheEffectiveBatchIsTheSame) {
  std::set<std::string> names;
  std::set<std::vector<std::string>> flags;
  for (const LadderRung& rung : ladder_rungs()) {
    EXPECT_TRUE(names.insert(rung.name).second) << rung.name;
    EXPECT_TRUE(flags.insert(rung.flags).second) << rung.name;
    for (const std::string& word : rung.flags) {
      if (word.starts_with("--")) {
        EXPECT_NE(find_argument(word.substr(2)), nullptr) << word;
      }
    }
    const int64_t batch = std::stoll(text_after(rung.flags, "--per_device_train_batch_size", "0")) *
                          std::stoll(text_after(rung.flags, "--gradient_accumulation_steps", "1"));
    EXPECT_EQ(batch, kLadderEffectiveBatch) << rung.name;
  }
}

TEST(LadderRungs, Parse) {
  for (const LadderRung& rung : ladder_rungs()) {
    std::vector<std::string> words = {"--model", "bert-mini"};
    words.insert(words.end(), rung.flags.begin(), rung.flags.end());
    EXPECT_NO_THROW(parse_arguments(Command::kBenchStep, words)) << rung.name;
  }
}

TEST(LadderRungs, EachFp16RungHasItsBf16Twin) {
  std::set<std::vector<std::string>> all;
  for (const LadderRung& rung : ladder_rungs()) all.insert(rung.flags);
  for (const LadderRung& rung : ladder_rungs()) {
    std::vector<std::string> twin = rung.flags;
    const auto fp16 = std::find(twin.begin(), twin.end(), "--fp16");
    if (fp16 == twin.end()) continue;
    *fp16 = "--bf16";
    EXPECT_TRUE(all.contains(twin)) << rung.name;
  }
}

TEST(LadderRungs, Choose) {
  EXPECT_EQ(choose_rungs({}).size(), ladder_rungs().size());
  const std::vector<LadderRung> two = choose_rungs({"bf16", "accumulation"});
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[0].name, "accumulation");
  EXPECT_EQ(two[1].name, "bf16");
  EXPECT_EQ(choose_rungs(quick_peer_rungs()).size(), quick_peer_rungs().size());
  try {
    choose_rungs({"adafactr"});
    FAIL() << "it is known";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean adafactor?"), std::string::npos) << error.what();
  }
  EXPECT_THROW(choose_rungs({"bf16", "bf16"}), UserError);
}

TEST(LadderRungs, PeerFlags) {
  const PeerFlags same = peer_flags({"--bf16", "--optim", "adafactor"});
  EXPECT_EQ(same.flags, (std::vector<std::string>{"--bf16", "--optim", "adafactor"}));
  EXPECT_TRUE(same.left_out.empty());
  const PeerFlags exact = peer_flags(choose_rungs({"exact_bf16"})[0].flags);
  EXPECT_EQ(exact.flags,
            (std::vector<std::string>{"--per_device_train_batch_size", "1", "--gradient_accumulation_steps",
                                      "4", "--gradient_checkpointing", "--max_grad_norm", "0", "--bf16"}));
  EXPECT_EQ(exact.left_out,
            (std::vector<std::string>{"--accumulation_order", "layer_major", "--update_in_backward"}));
  const PeerFlags lowest = peer_flags(choose_rungs({"exact_bf16_8bit_no_master"})[0].flags);
  EXPECT_EQ(lowest.flags, peer_flags(choose_rungs({"exact_bf16_8bit"})[0].flags).flags);
  EXPECT_EQ(lowest.left_out.back(), "none");
}

// The Trainer's 8-bit states leave embeddings in 32 bits; other arguments of optimizers are handed to it.
TEST(LadderRungs, PeerFlagsOfEmbeddings) {
  const PeerFlags of_embeddings = peer_flags(choose_rungs({"8bit_embeddings"})[0].flags);
  EXPECT_EQ(of_embeddings.flags, choose_rungs({"8bit"})[0].flags);
  EXPECT_EQ(of_embeddings.left_out, (std::vector<std::string>{"--optim_args", "embedding_bits=8"}));
  const std::vector<std::string> momentum = {"--optim", "sgd", "--optim_args", "momentum=0.9"};
  EXPECT_EQ(peer_flags(momentum).flags, momentum);
  EXPECT_EQ(peer_flags(choose_rungs({"bf16_compile"})[0].flags).flags.back(), "--torch_compile");
}

}  // namespace
}  // namespace shoehorn
