#include "lab/quality_rungs.h"

#include <algorithm>

#include "base/error.h"

namespace shoehorn {

namespace {

constexpr int64_t kMicroBatches = 4;

// The learning rate of AdamW times what is usual for an optimizer whose steps have another length.
Flags times(const QualityBase& base, double factor) {
  return {"--learning_rate", fmt::format("{:.6g}", base.learning_rate * factor)};
}

// Another batch; the learning rate follows by the linear or the root rule.
Flags batch(const QualityBase& base, int64_t size, const std::string& rule) {
  return {"--per_device_train_batch_size", std::to_string(size),           "--scale_learning_rate", rule,
          "--reference_batch_size",        std::to_string(base.batch_size)};
}

}  // namespace

std::vector<QualityRung> quality_rungs(const QualityBase& base) {
  const int64_t b = base.batch_size;
  if (b < 1 || b % kMicroBatches != 0) {
    throw user_error(
        "[--per_device_train_batch_size] expected a multiple of {}, because rungs accumulate it from {} "
        "micro-batches, got {}",
        kMicroBatches, kMicroBatches, b);
  }
  const Flags accumulation = {"--per_device_train_batch_size", std::to_string(b / kMicroBatches),
                              "--gradient_accumulation_steps", std::to_string(kMicroBatches)};
  const Flags layer_major = accumulation + Flags{"--accumulation_order", "layer_major"};
  const Flags checkpointing = {"--gradient_checkpointing"};
  const Flags unclipped = {"--max_grad_norm", "0"};
  const Flags in_backward = unclipped + Flags{"--update_in_backward"};
  const Flags exact = layer_major + checkpointing + in_backward;
  const Flags bf16 = {"--bf16"};
  const Flags fp16 = {"--fp16"};
  const Flags no_masters = {"--master_weights", "none"};
  const auto optim = [](const char* name) { return Flags{"--optim", name}; };
  const Flags momentum = {"--optim_args", "momentum=0.9"};
  const Flags embeddings_too = {"--optim_args", "embedding_bits=8"};
  const std::string in_four = fmt::format("{} x {} accumulation", b / kMicroBatches, kMicroBatches);
  using enum Promise;
  return {
      {{"reference", fmt::format("batch {}, fp32, AdamW", b), {}}},
      {{"checkpointing", "checkpointing", checkpointing}, kEveryBit, "reference"},
      {{"accumulation", in_four, accumulation}, kRounding, "reference"},
      {{"layer_major", in_four + ", layer-major", layer_major}, kRounding, "reference"},
      {{"unclipped", "no clipping", unclipped}},
      {{"update_in_backward", "no clipping, update in backward", in_backward}, kEveryBit, "unclipped"},
      {{"exact", "all exact techniques, no clipping", exact}, kRounding, "unclipped"},

      {{"bf16", "bf16", bf16}},
      {{"fp16", "fp16", fp16}},
      {{"bf16_checkpointing", "bf16, checkpointing", bf16 + checkpointing}, kEveryBit, "bf16"},
      {{"bf16_no_master", "bf16 without masters", bf16 + no_masters}},

      {{"8bit", "8-bit AdamW", optim("adamw_8bit")}},
      {{"8bit_embeddings", "8-bit AdamW, embeddings too", optim("adamw_8bit") + embeddings_too}},
      {{"adafactor", "Adafactor", optim("adafactor")}},
      {{"lion", "Lion, learning rate / 10", optim("lion_32bit") + times(base, 0.1)}},
      {{"lion_8bit", "8-bit Lion, learning rate / 10", optim("lion_8bit") + times(base, 0.1)}},
      {{"rmsprop", "RMSprop", optim("rmsprop")}},
      {{"adagrad", "Adagrad, learning rate x 10", optim("adagrad") + times(base, 10)}},
      {{"sgd", "SGD, momentum 0.9, learning rate x 200", optim("sgd") + momentum + times(base, 200)}},
      // Momentum 0.9 adds up ten gradients; without it the learning rate is ten times SGD's.
      {{"lomo", "LOMO, no clipping, learning rate x 2000", optim("lomo") + unclipped + times(base, 2000)}},
      {{"adalomo", "AdaLOMO, no clipping", optim("adalomo") + unclipped}},

      {{"half_batch", fmt::format("batch {}, linear", b / 2), batch(base, b / 2, "linear")}},
      {{"double_batch", fmt::format("batch {}, linear", b * 2), batch(base, b * 2, "linear")}},
      {{"double_batch_sqrt", fmt::format("batch {}, root", b * 2), batch(base, b * 2, "sqrt")}},
      {{"fourfold_batch", fmt::format("batch {}, linear", b * 4), batch(base, b * 4, "linear")}},
      {{"fourfold_batch_sqrt", fmt::format("batch {}, root", b * 4), batch(base, b * 4, "sqrt")}},

      {{"ramp",
        fmt::format("batch {} growing to {}, root", b, b * 4),
        {"--gradient_accumulation_steps", "4", "--batch_size_ramp",
         fmt::format("0:{},{}:{},{}:{}", b, 16 * b, 2 * b, 48 * b, 4 * b), "--scale_learning_rate", "sqrt",
         "--reference_batch_size", std::to_string(b)}}},

      {{"bf16_8bit", "bf16, 8-bit AdamW", bf16 + optim("adamw_8bit")}},
      {{"bf16_8bit_no_master", "bf16 without masters, 8-bit AdamW", bf16 + optim("adamw_8bit") + no_masters}},
      {{"exact_bf16", "all exact techniques, bf16", exact + bf16}},
      {{"exact_bf16_8bit", "all exact techniques, bf16, 8-bit AdamW", exact + bf16 + optim("adamw_8bit")}},
      {{"exact_bf16_adafactor", "all exact techniques, bf16, Adafactor", exact + bf16 + optim("adafactor")}},
      {{"exact_bf16_8bit_embeddings_no_master",
        "all exact techniques, bf16 without masters, 8-bit AdamW, embeddings too",
        exact + bf16 + optim("adamw_8bit") + embeddings_too + no_masters}},
  };
}

std::vector<QualityRung> choose_quality_rungs(const QualityBase& base,
                                              const std::vector<std::string>& names) {
  const std::vector<QualityRung> all = quality_rungs(base);
  const std::vector<QualityRung> named = choose_among(all, names);
  const auto is_wanted = [&named](const QualityRung& rung) {
    return rung.name == "reference" || std::any_of(named.begin(), named.end(), [&rung](const QualityRung& n) {
             return n.name == rung.name || n.equals == rung.name;
           });
  };
  std::vector<QualityRung> chosen;
  std::copy_if(all.begin(), all.end(), std::back_inserter(chosen), is_wanted);
  return chosen;
}

std::vector<std::string> flags_of_quality_rungs() {
  std::vector<std::string> flags;
  for (const QualityRung& rung : quality_rungs({})) {
    for (const std::string& word : rung.flags) {
      const bool is_base = word == "--per_device_train_batch_size" || word == "--learning_rate";
      if (!word.starts_with("--") || is_base) continue;
      if (std::find(flags.begin(), flags.end(), word.substr(2)) == flags.end())
        flags.push_back(word.substr(2));
    }
  }
  return flags;
}

}  // namespace shoehorn
