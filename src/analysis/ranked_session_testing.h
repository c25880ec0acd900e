// Sessions of a small BERT on ranks that are not there, for tests of what these send and how long it takes.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

#include "analysis/analysis_testing.h"
#include "analysis/message_time.h"
#include "arguments/step_settings.h"
#include "models/bert.h"
#include "session/session.h"

namespace shoehorn::test_support {

class RankedSession : public testing::Test {
 protected:
  SessionOptions options(int64_t ranks, int64_t stage, int64_t micro_batches = 1) const {
    TrainingArguments args;
    args.gradient_accumulation_steps = micro_batches;
    SessionOptions options;
    options.step = step_options_of(resolved(args));
    options.step.ranks.world_size = ranks;
    options.step.ranks.zero_stage = stage;
    options.step.ranks.zero_persistence_threshold = 0;
    options.train = {.tokens = 1024, .sequences = 8, .longest_sequence = 128};
    return options;
  }
  // By name.
  static std::map<std::string, RankTraffic> kinds_of(const StepTraffic& traffic) {
    std::map<std::string, RankTraffic> kinds;
    for (const RankTraffic& kind : traffic.kinds) kinds[kind.name] = kind;
    return kinds;
  }
  BertForSequenceClassification model_{two_layer_bert()};
  MachineLimits machine_ = {.fp32_flops = 1e11, .bf16_flops = 4e11, .bytes_per_second = 1e10};
  RankLink link_ = {.latency_seconds = 1e-5, .bytes_per_second = 1e9, .source = "test"};
};

}  // namespace shoehorn::test_support
