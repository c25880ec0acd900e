// The bytes of optimizer state that docs/optimizers.md promises: planned, and in the arena of a run.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "arguments/argument_table.h"
#include "arguments/step_settings.h"
#include "base/format.h"
#include "exec/executor_testing.h"
#include "toy_training.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

// An optimizer with what of optim_args changes its state, and its bytes a parameter of BERT-large: the
// numbers of the table in docs/optimizers.md.
struct StateBytes {
  std::string optim;
  Kwargs optim_args;
  std::string bytes;
};

void PrintTo(const StateBytes& setting, std::ostream* out) {
  *out << setting.optim << " " << argument_to_text(setting.optim_args);
}

std::vector<StateBytes> state_bytes() {
  const Kwargs momentum = {{"momentum", 0.9}};
  const Kwargs short_embeddings = {{"embedding_bits", int64_t{8}}};
  return {{"adamw_torch_fused", {}, "8.00"},
          {"adamw_torch", {}, "8.00"},
          {"adamw_hf", {}, "8.00"},
          {"adamw_apex_fused", {}, "8.00"},
          {"adamw_8bit", {}, "2.60"},
          {"adamw_8bit", short_embeddings, "2.04"},
          {"adamw_bnb_8bit", {}, "2.60"},
          {"adafactor", {}, "0.01"},
          {"adafactor", {{"beta1", 0.9}}, "4.01"},
          {"lion_32bit", {}, "4.00"},
          {"lion_8bit", {}, "1.30"},
          {"lion_8bit", short_embeddings, "1.02"},
          {"rmsprop", {}, "4.00"},
          {"rmsprop", momentum, "8.00"},
          {"rmsprop", {{"centered", true}}, "8.00"},
          {"rmsprop", {{"centered", true}, {"momentum", 0.9}}, "12.00"},
          {"adagrad", {}, "4.00"},
          {"adalomo", {}, "0.01"},
          {"lomo", {}, "0.00"},
          {"sgd", {}, "0.00"},
          {"sgd", momentum, "4.00"}};
}

// Some matrices are below the 4096 elements that states in 8 bits begin at, some above.
BertConfig config_of_both_kinds() {
  BertConfig config = small_bert();
  config.hidden_size = 72;
  return config;
}

class OptimizerStateBytes : public testing::TestWithParam<StateBytes> {
 protected:
  static SessionOptions options(const BatchCapacity& capacity) {
    TrainingArguments args{.optim = GetParam().optim, .optim_args = GetParam().optim_args};
    args.max_grad_norm = 0;  // lomo and adalomo need that
    SessionOptions options;
    options.step = step_options_of(resolved(args));
    options.train = capacity;
    options.threads = 2;
    return options;
  }

  static int64_t planned_bytes(const Session& session) {
    const auto roles = bytes_by_role(session.state(), session.plan());
    const auto found = roles.find("optimizer_state");
    return found == roles.end() ? 0 : found->second;
  }

  // Bytes of the arena that are a state's, each of one only. All states start as zeros, and a step changes
  // each.
  static int64_t bytes_in_use(Session& session) {
    std::map<int64_t, int64_t> ranges;  // bytes by offset in the persistent arena
    const StateTable& state = session.state();
    for (const Storage& storage : state.storages()) {
      if (storage.role != Role::kOptimizerState || storage.type.bytes() == 0) continue;
      const StorageId id = state.find_storage(storage.name);
      const auto bytes = values_of<std::byte>(session.executor(), id);
      EXPECT_TRUE(std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{}; }))
          << storage.name << " is not written";
      ranges[session.plan().storage_offset[id.at()]] = storage.type.bytes();
    }
    int64_t bytes = 0;
    int64_t end = 0;
    for (const auto& [begin, length] : ranges) {
      EXPECT_GE(begin, end) << "states overlap";
      end = begin + length;
      bytes += length;
    }
    return bytes;
  }
};

TEST_P(OptimizerStateBytes, PlannedAreThoseInTheArena) {
  TrainingRun run(BertForSequenceClassification(config_of_both_kinds()), options({160, 8, 20}));
  Session& session = run.session();
  run.step(random_samples(6, 5), {{0, 1, 2, 3, 4, 5}}, 1e-3F);
  EXPECT_EQ(session.executor().resident_arena_bytes(), session.plan().arena_bytes());
  EXPECT_EQ(bytes_in_use(session), planned_bytes(session));
  const bool keeps_none = GetParam().bytes == "0.00";
  EXPECT_EQ(planned_bytes(session) == 0, keeps_none);
}

// Planned only.
TEST_P(OptimizerStateBytes, OfBertLargeAreThoseOfTheDocumentation) {
  const Session session(BertForSequenceClassification(BertConfig::bert_large()), options({512, 1, 512}));
  const double bytes = static_cast<double>(planned_bytes(session));
  EXPECT_EQ(fmt::format("{:.2f}", bytes / static_cast<double>(session.parameter_count())), GetParam().bytes);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, OptimizerStateBytes, testing::ValuesIn(state_bytes()),
                         [](const auto& info) {
                           std::string name = info.param.optim;
                           for (const auto& [key, value] : info.param.optim_args) name += "_" + key;
                           return name;
                         });

TEST(OptimizerStateBytesTable, HasEveryOptimizer) {
  std::set<std::string> named;
  for (const StateBytes& setting : state_bytes()) named.insert(setting.optim);
  std::set<std::string> supported;
  for (const ArgumentChoice& choice : find_argument("optim")->choices) {
    if (choice.why.empty()) supported.emplace(choice.value);
  }
  EXPECT_EQ(named, supported);
}

}  // namespace
}  // namespace shoehorn
