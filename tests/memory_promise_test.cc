// What the plan says is what the run takes: arenas to the byte, nothing allocated during a step, packing near
// its bound.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/format.h"
#include "base/process.h"
#include "exec/null/null_backend.h"
#include "io/test_directory.h"
#include "models/registry.h"
#include "packed_training.h"

namespace {

// Calls of malloc and its relatives (operator new included) of this size or more, while counting is on.
constexpr size_t kLargeAllocation = 4096;
std::atomic<bool> counting{false};
std::atomic<int64_t> large_allocations{0};
std::atomic<size_t> largest_allocation{0};

[[maybe_unused]] void count_allocation(size_t bytes) {
  if (!counting.load(std::memory_order_relaxed) || bytes < kLargeAllocation) return;
  ++large_allocations;
  size_t largest = largest_allocation;
  while (bytes > largest && !largest_allocation.compare_exchange_weak(largest, bytes)) continue;
}

}  // namespace

// Every library of the process allocates through these; glibc's own are underneath. A sanitizer brings its
// own.
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
#define SHOEHORN_COUNTS_ALLOCATIONS 1
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) noexcept {
  count_allocation(bytes);
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) noexcept {
  count_allocation(count * bytes);
  return __libc_calloc(count, bytes);
}
void* realloc(void* block, size_t bytes) noexcept {
  count_allocation(bytes);
  return __libc_realloc(block, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  count_allocation(bytes);
  return __libc_memalign(alignment, bytes);
}
void* memalign(size_t alignment, size_t bytes) noexcept {
  count_allocation(bytes);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** block, size_t alignment, size_t bytes) noexcept {
  count_allocation(bytes);
  *block = __libc_memalign(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}
}
#else
#define SHOEHORN_COUNTS_ALLOCATIONS 0
#endif

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

BertConfig middle_bert() {
  BertConfig config;
  config.vocab_size = ToyModel::kVocabulary * 20;
  config.hidden_size = 128;
  config.num_hidden_layers = 4;
  config.num_attention_heads = 4;
  config.intermediate_size = 512;
  config.max_position_embeddings = 64;
  config.labels = classes(3);
  return config;
}

struct StepSetting {
  std::string name;
  std::function<void(StepOptions&)> set;
};

void PrintTo(const StepSetting& setting, std::ostream* out) {
  *out << setting.name;
}

std::vector<StepSetting> settings() {
  return {
      {"plain", [](StepOptions&) {}},
      {"unfused", [](StepOptions& o) { o.skip_passes = {"fuse"}; }},
      {"bf16", [](StepOptions& o) { o.precision = Precision::kBfloat16; }},
      {"fp16", [](StepOptions& o) { o.precision = Precision::kFloat16; }},
      {"fp16_accumulate",
       [](StepOptions& o) {
         o.precision = Precision::kFloat16;
         o.gradient_accumulation_steps = 2;
       }},
      {"fp16_layer_major_recompute",
       [](StepOptions& o) {
         o.precision = Precision::kFloat16;
         o.gradient_accumulation_steps = 2;
         o.accumulation_order = AccumulationOrder::kLayer;
         o.recompute_every_n_layers = 2;
       }},
      {"fp16_evaluation", [](StepOptions& o) { o.evaluation_precision = Precision::kFloat16; }},
      {"recompute", [](StepOptions& o) { o.recompute_every_n_layers = 1; }},
      {"sgd_in_backward",
       [](StepOptions& o) {
         o.optimizer.settings = SgdSettings{};
         o.max_grad_norm = 0;
         o.update_in_backward = true;
       }},
      {"adafactor_bf16",
       [](StepOptions& o) {
         o.optimizer.settings = AdafactorSettings{};
         o.precision = Precision::kBfloat16;
       }},
      {"adafactor_in_backward",
       [](StepOptions& o) {
         o.optimizer.settings = AdafactorSettings{.beta1 = 0.9, .scale_parameter = true};
         o.max_grad_norm = 0;
         o.update_in_backward = true;
       }},
      {"adamw_8bit_bf16",
       [](StepOptions& o) {
         o.optimizer.settings = AdamW8bitSettings{};
         o.precision = Precision::kBfloat16;
       }},
      {"lion_8bit_in_backward",
       [](StepOptions& o) {
         o.optimizer.settings = Lion8bitSettings{.states = {.least_elements = 256, .of_embeddings = true}};
         o.max_grad_norm = 0;
         o.update_in_backward = true;
       }},
      {"frozen_bf16",
       [](StepOptions& o) {
         o.freeze = {"embeddings", R"(layer\.0\.)"};
         o.precision = Precision::kBfloat16;
       }},
      {"no_masters_8bit",
       [](StepOptions& o) {
         o.optimizer.settings = AdamW8bitSettings{};
         o.precision = Precision::kBfloat16;
         o.master_weights = MasterWeights::kNone;
       }},
      {"lora", [](StepOptions& o) { o.lora.rank = 8; }},
      {"lora_all_linear_dropout_bf16_recompute",
       [](StepOptions& o) {
         o.lora = {.rank = 4, .dropout = 0.1F, .targets = {"all-linear"}};
         o.precision = Precision::kBfloat16;
         o.recompute_every_n_layers = 1;
       }},
      {"lora_fp16_accumulate_8bit",
       [](StepOptions& o) {
         o.lora.rank = 8;
         o.precision = Precision::kFloat16;
         o.gradient_accumulation_steps = 2;
         o.optimizer.settings = AdamW8bitSettings{.states = {.least_elements = 256}};
       }},
      {"lora_adafactor_in_backward",
       [](StepOptions& o) {
         o.lora.rank = 8;
         o.optimizer.settings = AdafactorSettings{};
         o.max_grad_norm = 0;
         o.update_in_backward = true;
       }},
      {"accumulate", [](StepOptions& o) { o.gradient_accumulation_steps = 2; }},
      {"accumulate_no_masters_adafactor",
       [](StepOptions& o) {
         o.gradient_accumulation_steps = 2;
         o.optimizer.settings = AdafactorSettings{};
         o.precision = Precision::kBfloat16;
         o.master_weights = MasterWeights::kNone;
       }},
      {"layer_major_bf16_recompute",
       [](StepOptions& o) {
         o.gradient_accumulation_steps = 2;
         o.accumulation_order = AccumulationOrder::kLayer;
         o.precision = Precision::kBfloat16;
         o.recompute_every_n_layers = 2;
         o.max_grad_norm = 0;
         o.update_in_backward = true;
       }},
  };
}

SessionOptions options_for(const StepSetting& setting, BatchCapacity capacity) {
  SessionOptions options;
  setting.set(options.step);
  options.train = options.evaluation = capacity;
  options.threads = 2;
  return options;
}

int64_t sum(const std::map<std::string, int64_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0},
                         [](int64_t total, const auto& entry) { return total + entry.second; });
}

// A toy's few hundred kilobytes may miss 2% by a buffer or two.
constexpr int64_t kPackingSlack = 16 << 10;

void expect_sound(const StateTable& state, const MemoryPlan& plan) {
  for (size_t program = 0; program < plan.programs.size(); ++program) {
    const TransientPlan& needed = plan.programs[program].device();
    EXPECT_GE(needed.bytes, needed.lower_bound_bytes) << program;
    EXPECT_LE(needed.bytes - needed.lower_bound_bytes, std::max(needed.lower_bound_bytes / 50, kPackingSlack))
        << program;
  }
  const auto roles = bytes_by_role(state, plan);
  const auto components = bytes_by_component(state, plan);
  for (const auto& bytes : {roles, components}) {
    EXPECT_EQ(sum(bytes), plan.arena_bytes());
    for (const auto& [name, amount] : bytes) EXPECT_GT(amount, 0) << name;
  }
  EXPECT_EQ(components.at("other"), roles.at("input") + roles.at("scalar"))
      << "only the batch is of no component";
}

class MemoryPromise : public testing::TestWithParam<StepSetting> {
 protected:
  static void run(const BertConfig& config, BatchCapacity capacity) {
    TrainingRun run(BertForSequenceClassification(config), options_for(GetParam(), capacity));
    Session& session = run.session();
    expect_sound(session.state(), session.plan());
    EXPECT_EQ(session.executor().arena_bytes(), session.plan().arena_bytes());
    EXPECT_EQ(session.executor().resident_arena_bytes(), session.plan().arena_bytes())
        << "before the first step";
    const std::vector<Sample> samples = random_samples(6, 5);
    const Split split = GetParam().name.find("accumulate") == 0 || GetParam().name.find("layer_major") == 0
                            ? Split{{0, 1, 2}, {3, 4, 5}}
                            : Split{{0, 1, 2, 3, 4, 5}};
    run.step(samples, split, 1e-3F);
    run.evaluate(samples, {0, 1, 2}, config.labels.num_labels());
    large_allocations = 0;
    counting = true;
    for (int i = 0; i < 3; ++i) run.step(samples, split, 1e-3F);
    counting = false;
    EXPECT_EQ(session.executor().resident_arena_bytes(), session.plan().arena_bytes());
    EXPECT_TRUE(std::isfinite(run.loss()));
    if (session.backend().machine().isa == "AVX2") {
      GTEST_SKIP()
          << "all was checked but allocations: without AVX-512 oneDNN copies operands into memory of its own, "
             "which the forecast has";
    }
    EXPECT_EQ(large_allocations, 0) << "allocations of 4 KiB or more in three steps";
  }
};

TEST_P(MemoryPromise, SmallBert) {
  run(small_bert(), {160, 8, 20});
}
TEST_P(MemoryPromise, MiddleBert) {
  run(middle_bert(), {512, 16, 64});
}

// Planned only: these would not fit.
TEST_P(MemoryPromise, BertBaseAndLargePackWithinTwoPercent) {
  for (const bool large : {false, true}) {
    const BertForSequenceClassification model(large ? BertConfig::bert_large() : BertConfig::bert_base());
    for (const BatchCapacity& capacity : {BatchCapacity{32 * 128, 32, 128}, BatchCapacity{8 * 512, 8, 512}}) {
      const Session session(model, options_for(GetParam(), capacity));
      expect_sound(session.state(), session.plan());
      std::printf("  bert-%s, %lld tokens: %s, packing %.3f%% over its bound, planned in %.3f s\n",
                  large ? "large" : "base", static_cast<long long>(capacity.tokens),
                  format_bytes(session.plan().arena_bytes()).c_str(),
                  100.0 * (static_cast<double>(session.plan().device().transient_bytes) /
                               static_cast<double>(session.plan().device().transient_lower_bound_bytes) -
                           1),
                  session.planning_seconds());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, MemoryPromise, testing::ValuesIn(settings()),
                         [](const auto& info) { return info.param.name; });

struct DecoderShape {
  const char* name;
  const char* config;
};

void PrintTo(const DecoderShape& shape, std::ostream* out) {
  *out << shape.name;
}

constexpr DecoderShape kDecoderShapes[] = {
    {"gpt2", R"({"model_type": "gpt2", "vocab_size": 1060, "n_embd": 128, "n_layer": 4, "n_head": 4,
                 "n_positions": 64})"},
    {"llama", R"({"model_type": "llama", "vocab_size": 1060, "hidden_size": 128, "intermediate_size": 320,
                  "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
                  "max_position_embeddings": 64})"},
    {"qwen3", R"({"model_type": "qwen3", "vocab_size": 1060, "hidden_size": 96, "intermediate_size": 320,
                  "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
                  "max_position_embeddings": 64, "tie_word_embeddings": true})"},
    {"qwen2", R"({"model_type": "qwen2", "vocab_size": 1060, "hidden_size": 128, "intermediate_size": 320,
                  "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
                  "max_position_embeddings": 64, "tie_word_embeddings": true})"},
    {"mistral", R"({"model_type": "mistral", "vocab_size": 1060, "hidden_size": 128, "intermediate_size": 320,
                    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
                    "max_position_embeddings": 64, "sliding_window": 7})"}};

// Samples of one to three documents, whose labels are their next tokens.
Dataset packed_documents(int64_t count) {
  std::mt19937 engine(7);
  Rows ids(static_cast<size_t>(count));
  Rows positions(static_cast<size_t>(count));
  for (size_t s = 0; s < ids.size(); ++s) {
    for (size_t d = 0; d <= s % 3; ++d) {
      const std::vector<int64_t> document = random_row(engine, 20);
      ids[s].insert(ids[s].end(), document.begin(), document.end());
      for (size_t t = 0; t < document.size(); ++t) positions[s].push_back(static_cast<int64_t>(t));
    }
  }
  const Dataset rows = Dataset::from_columns({{"input_ids", ids}, {"position_ids", positions}});
  return Dataset::next_token(rows);
}

class DecoderMemoryPromise : public testing::TestWithParam<std::tuple<DecoderShape, StepSetting>> {};

// A language model on packed documents: what MemoryPromise says of BERT.
TEST_P(DecoderMemoryPromise, LanguageModelOnPackedDocuments) {
  const auto& [shape, setting] = GetParam();
  const auto model =
      model_from_json(nlohmann::json::parse(shape.config), shape.name, Head::kCausalLanguageModel);
  SessionOptions options;
  setting.set(options.step);
  options.threads = 2;
  const bool accumulates = options.step.gradient_accumulation_steps > 1;
  const Dataset dataset = packed_documents(6);
  PackedRun run(*model, dataset, packing_of(accumulates ? 3 : 6), options);
  Session& session = run.session();
  expect_sound(session.state(), session.plan());
  EXPECT_EQ(session.executor().arena_bytes(), session.plan().arena_bytes());
  EXPECT_EQ(session.executor().resident_arena_bytes(), session.plan().arena_bytes())
      << "before the first step";
  const Samples split = accumulates ? Samples{{0, 1, 2}, {3, 4, 5}} : kSixSamples;
  run.step(split, 1e-3F);
  large_allocations = 0;
  counting = true;
  float loss = 0;
  for (int i = 0; i < 3; ++i) loss = run.step(split, 1e-3F);
  counting = false;
  EXPECT_EQ(session.executor().resident_arena_bytes(), session.plan().arena_bytes());
  EXPECT_TRUE(std::isfinite(loss));
  if (session.backend().machine().isa == "AVX2") {
    GTEST_SKIP()
        << "all was checked but allocations: without AVX-512 oneDNN copies operands into memory of its "
           "own, which the forecast has";
  }
  EXPECT_EQ(large_allocations, 0) << "allocations of 4 KiB or more in three steps";
}

std::vector<StepSetting> decoder_settings() {
  std::vector<StepSetting> chosen;
  for (StepSetting& setting : settings()) {
    for (const char* name : {"plain", "unfused", "bf16", "recompute", "lora", "accumulate",
                             "layer_major_bf16_recompute", "lora_fp16_accumulate_8bit", "no_masters_8bit"}) {
      if (setting.name == name) chosen.push_back(setting);
    }
  }
  return chosen;
}

INSTANTIATE_TEST_SUITE_P(Decoders, DecoderMemoryPromise,
                         testing::Combine(testing::ValuesIn(kDecoderShapes),
                                          testing::ValuesIn(decoder_settings())),
                         [](const auto& info) {
                           return fmt::format("{}_{}", std::get<0>(info.param).name,
                                              std::get<1>(info.param).name);
                         });

// The counter itself: a test that cannot fail would promise nothing.
TEST(AllocationCounter, SeesLargeAllocations) {
  if (!SHOEHORN_COUNTS_ALLOCATIONS) GTEST_SKIP() << "this build does not count allocations";
  large_allocations = 0;
  counting = true;
  auto block = std::make_unique<std::vector<char>>(kLargeAllocation);
  void* volatile other = std::malloc(kLargeAllocation);
  counting = false;
  std::free(other);
  EXPECT_EQ(large_allocations, 2);
}

TEST(NullBackend, PlansWhatNoMachineHolds) {
  BertConfig config;
  config.vocab_size = 128256;
  config.hidden_size = 16384;
  config.num_hidden_layers = 126;
  config.num_attention_heads = 128;
  config.intermediate_size = 53248;
  config.max_position_embeddings = 8192;
  const BertForSequenceClassification model(config);
  StepOptions step;
  step.precision = Precision::kBfloat16;
  step.recompute_every_n_layers = 1;
  const int64_t before = process_resident_bytes();
  const BatchCapacity capacity{8192, 1, 8192};
  const ProgramFamily family = build_programs(model, RunKind::kTrain, capacity, capacity, step);
  const MemoryPlan plan = plan_memory(*family.state, family.programs, *make_null_backend());
  EXPECT_LT(process_resident_bytes() - before, int64_t{256} << 20);
  expect_sound(*family.state, plan);
  // 126 layers of 4 H² + 2 H F weights and the tables: fp32 in two halves, and two moments.
  const int64_t hidden = config.hidden_size;
  const int64_t weights =
      126 * (4 * hidden * hidden + 2 * hidden * config.intermediate_size) + (128256 + 8192) * hidden;
  EXPECT_GT(plan.device().persistent_bytes, 12 * weights);
  EXPECT_LT(static_cast<double>(plan.device().persistent_bytes), 12.1 * static_cast<double>(weights));
}

// Two processes have the columns of a table of 16 MiB each. Assembling it, and reading rows of it, take no
// memory of the size of the table or of what either has.
TEST(SlicedWeights, AreReadAndAssembledInPieces) {
  constexpr int64_t kRows = 4096;
  constexpr int64_t kColumns = 1024;
  const TestDirectory directory;
  const TensorSpec table = {"table", DType::kF32, {kRows, kColumns}};
  for (int32_t owner = 0; owner < 2; ++owner) {
    const Slice half = Slice::block(table.shape, 1, owner * kColumns / 2, (owner + 1) * kColumns / 2);
    SafetensorsWriter writer =
        slices_writer(directory.path() / owner_file_name("model.safetensors", {owner, 2}), {{table, half}});
    std::vector<float> row(kColumns / 2);
    for (int64_t i = 0; i < kRows; ++i) {
      std::iota(row.begin(), row.end(), static_cast<float>(i * kColumns + owner * kColumns / 2));
      writer.append("table", std::as_bytes(std::span(row)));
    }
    writer.commit();
  }
  StateTable state;
  Parameter parameter;
  parameter.name = table.name;
  parameter.shape = table.shape;
  parameter.shard = Shard{.slice = Slice::block(table.shape, 0, kRows / 2, kRows), .owner = 1};
  parameter.storage =
      state.add_storage({"table", {DType::kF32, {kRows / 2, kColumns}}, Role::kWeight, {}, {}});
  state.add_parameter(parameter);
  const std::vector<Program> programs;
  const auto backend = conformance_backend(1);
  const MemoryPlan plan = plan_memory(state, programs, *backend);
  Executor executor(state, programs, plan, *backend);
  const TestDirectory whole;
  TorchGenerator generator(1);

  largest_allocation = 0;
  counting = true;
  const TensorFiles files = TensorFiles::open_weights(directory.path());
  load_weights(files, state, executor, generator);
  assemble_weights(whole.path(), files, state);
  counting = false;
  EXPECT_LE(largest_allocation, size_t{1} << 20);

  std::vector<float> values(static_cast<size_t>(parameter.local_elements()));
  read_parameter(executor, parameter, 0, values);
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(values[i], static_cast<float>(i + values.size()));  // exact: below 2^24
  const SafetensorsFile file = SafetensorsFile::open(whole.path() / "model.safetensors");
  std::vector<float> all(kRows * kColumns);
  file.read_into("table", std::as_writable_bytes(std::span(all)));
  for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], static_cast<float>(i));
}

}  // namespace
}  // namespace shoehorn
