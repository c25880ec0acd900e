#include "lab/ladder_rungs.h"

#include <algorithm>

namespace shoehorn {

namespace {

std::vector<LadderRung> build_ladder() {
  const Flags batch_4 = {"--per_device_train_batch_size", "4"};
  const Flags batch_1_times_4 = {"--per_device_train_batch_size", "1", "--gradient_accumulation_steps", "4"};
  const Flags checkpointing = batch_1_times_4 + Flags{"--gradient_checkpointing"};
  const Flags layer_major = {"--accumulation_order", "layer_major"};
  const Flags update_in_backward = {"--update_in_backward", "--max_grad_norm", "0"};
  const Flags exact = checkpointing + layer_major + update_in_backward;
  const Flags fp16 = {"--fp16"};
  const Flags bf16 = {"--bf16"};
  const Flags no_masters = {"--master_weights", "none"};
  const Flags adafactor = {"--optim", "adafactor"};
  const Flags adamw_8bit = {"--optim", "adamw_bnb_8bit"};
  // The guides' figures have everything in 8 bits; bitsandbytes leaves embeddings in 32.
  const Flags adamw_8bit_all = adamw_8bit + Flags{"--optim_args", "embedding_bits=8"};
  return {
      {{"batch_4", "batch 4, fp32, AdamW", batch_4}, GuideFigures{8.86, 14949}},
      {{"accumulation", "1 x 4 accumulation", batch_1_times_4}, GuideFigures{7.75, 8681}},
      {{"checkpointing", "1 x 4, checkpointing", checkpointing}, GuideFigures{5.99, 6775}},
      {{"fp16", "batch 4, fp16", batch_4 + fp16}, GuideFigures{18.64, 13939}},
      {{"fp16_checkpointing", "1 x 4, checkpointing, fp16", checkpointing + fp16}, GuideFigures{10.09, 7275}},
      {{"adafactor", "batch 4, Adafactor", batch_4 + adafactor}, GuideFigures{7.96, 12295}},
      {{"fp16_checkpointing_adafactor", "1 x 4, checkpointing, fp16, Adafactor",
        checkpointing + fp16 + adafactor},
       GuideFigures{9.06, 4847}},
      {{"8bit_embeddings", "batch 4, 8-bit AdamW (embeddings 8)", batch_4 + adamw_8bit_all},
       GuideFigures{9.15, 13085}},
      {{"fp16_checkpointing_8bit_embeddings", "1 x 4, checkpointing, fp16, 8-bit AdamW (embeddings 8)",
        checkpointing + fp16 + adamw_8bit_all},
       GuideFigures{10.35, 5363}},

      {{"8bit", "batch 4, 8-bit AdamW (embeddings 32)", batch_4 + adamw_8bit}},
      {{"fp16_checkpointing_8bit", "1 x 4, checkpointing, fp16, 8-bit AdamW (embeddings 32)",
        checkpointing + fp16 + adamw_8bit}},

      {{"bf16", "batch 4, bf16", batch_4 + bf16}},
      {{"bf16_compile", "batch 4, bf16, torch.compile", batch_4 + bf16 + Flags{"--torch_compile"}}},
      {{"bf16_checkpointing", "1 x 4, checkpointing, bf16", checkpointing + bf16}},
      {{"bf16_checkpointing_adafactor", "1 x 4, checkpointing, bf16, Adafactor",
        checkpointing + bf16 + adafactor}},
      {{"bf16_checkpointing_8bit", "1 x 4, checkpointing, bf16, 8-bit AdamW (embeddings 32)",
        checkpointing + bf16 + adamw_8bit}},
      {{"bf16_checkpointing_8bit_embeddings", "1 x 4, checkpointing, bf16, 8-bit AdamW (embeddings 8)",
        checkpointing + bf16 + adamw_8bit_all}},

      {{"layer_major", "1 x 4, layer-major", batch_1_times_4 + layer_major}},
      {{"layer_major_update", "1 x 4, layer-major, update in the backward",
        batch_1_times_4 + layer_major + update_in_backward}},
      {{"bf16_no_master", "batch 4, bf16 without masters", batch_4 + bf16 + no_masters}},
      {{"bf16_lora", "batch 4, bf16, LoRA of rank 8", batch_4 + bf16 + Flags{"--lora_rank", "8"}}},

      {{"exact", "all exact techniques", exact}},
      {{"exact_bf16", "all exact techniques, bf16", exact + bf16}},
      {{"exact_bf16_adafactor", "all exact techniques, bf16, Adafactor", exact + bf16 + adafactor}},
      {{"exact_bf16_8bit", "all exact techniques, bf16, 8-bit AdamW (embeddings 32)",
        exact + bf16 + adamw_8bit}},
      {{"exact_bf16_8bit_embeddings", "all exact techniques, bf16, 8-bit AdamW (embeddings 8)",
        exact + bf16 + adamw_8bit_all}},
      {{"exact_bf16_8bit_no_master",
        "all exact techniques, bf16 without masters, 8-bit AdamW (embeddings 32)",
        exact + bf16 + adamw_8bit + no_masters}},
      {{"exact_bf16_8bit_embeddings_no_master",
        "all exact techniques, bf16 without masters, 8-bit AdamW (embeddings 8)",
        exact + bf16 + adamw_8bit_all + no_masters}},
  };
}

bool is_flag(const std::string& word) {
  return word.starts_with("--");
}

}  // namespace

const std::vector<LadderRung>& ladder_rungs() {
  static const std::vector<LadderRung> rungs = build_ladder();
  return rungs;
}

const std::vector<std::string>& quick_peer_rungs() {
  static const std::vector<std::string> names = {"batch_4",   "checkpointing",      "fp16",
                                                 "adafactor", "bf16_checkpointing", "exact_bf16"};
  return names;
}

std::vector<LadderRung> choose_rungs(const std::vector<std::string>& names) {
  return choose_among(ladder_rungs(), names);
}

PeerFlags peer_flags(const std::vector<std::string>& flags) {
  static const std::vector<std::string> kOursOnly = {"--accumulation_order", "--update_in_backward",
                                                     "--master_weights"};
  // bitsandbytes keeps the states of embeddings in 32 bits, and the Trainer has no flag that says otherwise.
  const auto is_of_embeddings = [&flags](size_t at) {
    return flags[at] == "--optim_args" && at + 1 < flags.size() &&
           flags[at + 1].starts_with("embedding_bits=");
  };
  PeerFlags peer;
  for (size_t at = 0; at < flags.size(); ++at) {
    const bool ours =
        is_of_embeddings(at) || std::find(kOursOnly.begin(), kOursOnly.end(), flags[at]) != kOursOnly.end();
    Flags& place = ours ? peer.left_out : peer.flags;
    place.push_back(flags[at]);
    while (at + 1 < flags.size() && !is_flag(flags[at + 1])) place.push_back(flags[++at]);
  }
  return peer;
}

}  // namespace shoehorn
