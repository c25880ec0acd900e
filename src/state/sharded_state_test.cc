// State that several processes share: each reads its shards from whole files or from slices of any other number of
// owners, and writes those that it owns. The processes are played one after the other, each with a state table and an
// executor of its own.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "base/error.h"
#include "exec/backends.h"
#include "io/checkpoint_directory.h"
#include "io/json_file.h"
#include "io/manifest.h"
#include "io/model_directory.h"
#include "io/test_directory.h"
#include "ops/op_builder.h"
#include "ops/verify.h"
#include "state/checkpoint.h"
#include "state/checkpoint_record.h"
#include "state/weights.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kStatesFile = "optimizer.safetensors";

// A parameter by what all processes know of it.
struct LogicalParameter {
  Parameter parameter;
  DType dtype = DType::kF32;
  bool is_split = false;  // bf16 with a 16-bit rest
  Region region;
};

// What an owner holds of a parameter; nothing: all of it.
using ShardOf = std::function<std::optional<Shard>(const Parameter&, const Owner&)>;

// One of the processes, with storages for weights and optimizer states, and no program but, where asked for, one that
// updates the weights by gradients that are given.
class Process {
 public:
  Process(const std::vector<LogicalParameter>& parameters, const OptimizerSettings& settings,
          const ShardOf& shard_of, const Owner& owner, bool updates = false)
      : settings_(settings), owner_(owner) {
    state_.set_base_model_prefix("bert");
    for (const LogicalParameter& logical : parameters) {
      Parameter parameter = logical.parameter;
      if (!owner.is_alone()) parameter.shard = shard_of(parameter, owner);
      const TensorType type = {logical.dtype,
                               parameter.is_sharded()
                                   ? Shape{parameter.stored_elements()}
                                   : Shape(std::vector<Dim>(parameter.shape.begin(), parameter.shape.end()))};
      parameter.storage = state_.add_storage({parameter.name, type, Role::kWeight, logical.region, {}});
      if (logical.is_split) {
        parameter.rest = state_.add_storage(
            {parameter.name + ".rest", {DType::kI16, type.shape}, Role::kMasterWeight, logical.region, {}});
      }
      state_.add_parameter(parameter);
    }
    join_shards();
    for (size_t i = 0; i < state_.storages().size(); ++i) {
      const StorageId storage{static_cast<int32_t>(i)};
      const auto held = state_.parameters_of(storage);
      if (state_.storage(storage).role == Role::kWeight && !held.empty() &&
          state_.parameter(held[0]).trainable)
        add_optimizer_states(state_, settings_, storage);
    }
    state_.verify_parameters();
    if (updates) add_updates();
    plan_ = plan_memory(state_, programs_, *backend());
    executor_.emplace(state_, programs_, plan_, *backend());
  }

  const StateTable& state() const { return state_; }
  Executor& executor() { return *executor_; }
  const OptimizerSettings& settings() const { return settings_; }

  void load(const fs::path& directory) {
    TorchGenerator generator(1);
    load_weights(TensorFiles::open_weights(directory), state_, *executor_, generator);
    load_optimizer_states(directory / kStatesFile, state_, *executor_, settings_);
  }
  void save(const fs::path& directory) const {
    save_weights(directory, state_, *executor_, nullptr, owner_);
    save_optimizer_states(directory / kStatesFile, state_, *executor_, settings_, owner_);
  }

  // The bytes that are here of each parameter, its rest and its states, by name, with what they are of the whole.
  struct Held {
    std::vector<std::byte> bytes;
    Slice slice;
    int64_t width;
  };
  std::map<std::string, Held> held() const {
    std::map<std::string, Held> all;
    const auto take = [&](const std::string& name, const ShardedTensor& tensor, StorageId storage,
                          int64_t offset) {
      if (!storage.valid()) return;
      const int64_t width = dtype_bytes(state_.storage(storage).type.dtype);
      Held& held = all[name];
      held = {std::vector<std::byte>(static_cast<size_t>(tensor.local_elements() * width)), tensor.slice(),
              width};
      executor_->read(storage, offset * width, held.bytes);
      // Padding stays zero.
      std::vector<std::byte> padding(
          static_cast<size_t>((tensor.stored_elements() - tensor.local_elements()) * width));
      executor_->read(storage, (offset + tensor.local_elements()) * width, padding);
      EXPECT_EQ(padding, std::vector<std::byte>(padding.size())) << name;
    };
    for (const Parameter& parameter : state_.parameters()) {
      take(parameter.name, parameter, parameter.storage, parameter.offset_elements);
      take(parameter.name + ".rest", parameter, parameter.rest, parameter.offset_elements);
      if (!parameter.trainable) continue;
      for (const OptimizerState& kept : optimizer_states(settings_, parameter)) {
        const auto place = find_optimizer_state(state_, settings_, parameter, kept.name);
        take(parameter.name + "." + kept.name, kept, place.storage, place.offset_elements);
      }
    }
    return all;
  }

  // One update, each with gradients that follow from the elements' numbers in the whole parameter.
  void update(int32_t step) {
    executor_->write_scalar(rate_, 0.01F);
    executor_->write_scalar(applied_, step);
    for (const Parameter& parameter : state_.parameters()) {
      if (!parameter.trainable || parameter.local_elements() == 0) continue;
      std::vector<float> values;
      for (const SliceRun& run : SliceRuns(parameter.slice())) {
        for (int64_t i = run.global; i < run.global + run.length; ++i)
          values.push_back(std::sin(static_cast<float>(i * (step + 1))));
      }
      const StorageId gradient = state_.find_storage(state_.storage(parameter.storage).name + ".gradient");
      executor_->write(gradient, parameter.offset_elements * 4, std::as_bytes(std::span(values)));
    }
    executor_->run(ProgramId{0}, {});
  }

  // Numbers everywhere: any bits where they are no floating-point numbers.
  void randomize(uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (const Parameter& parameter : state_.parameters()) {
      std::vector<float> values(static_cast<size_t>(parameter.local_elements()));
      for (float& value : values) value = normal(random);
      write_parameter(*executor_, parameter, 0, values);
    }
    for (size_t i = 0; i < state_.storages().size(); ++i) {
      const Storage& storage = state_.storages()[i];
      if (storage.role != Role::kOptimizerState) continue;
      std::vector<float> values(static_cast<size_t>(storage.type.bytes() + 3) / 4);
      for (float& value : values) value = normal(random);
      executor_->write(StorageId{static_cast<int32_t>(i)}, 0,
                       std::as_bytes(std::span(values)).first(static_cast<size_t>(storage.type.bytes())));
    }
  }

 private:
  static const Backend* backend() {
    static const std::unique_ptr<Backend> only = make_backend("cpu", 2);
    return only.get();
  }

  // Shards of "flat.…" parameters lie in one storage, as those of a layer would.
  void join_shards() {
    std::vector<StorageId> weights;
    std::vector<StorageId> rests;
    for (const Parameter& parameter : state_.parameters()) {
      if (!parameter.is_sharded() || !parameter.name.starts_with("flat.")) continue;
      weights.push_back(parameter.storage);
      if (parameter.rest.valid()) rests.push_back(parameter.rest);
    }
    if (weights.size() > 1) state_.merge(weights, "flat");
    if (rests.size() > 1) state_.merge(rests, "flat.rest");
  }

  void add_updates() {
    rate_ = state_.add_storage({"rate", {DType::kF32, {1}}, Role::kScalar, {}, {}});
    applied_ = state_.add_storage({"applied", {DType::kI32, {1}}, Role::kScalar, {}, {}});
    Program& program = programs_.emplace_back(ProgramKind::kTrainStep, &state_);
    OpBuilder builder(program);
    std::set<StorageId> weights;
    for (const Parameter& parameter : state_.parameters()) {
      if (!parameter.trainable || parameter.stored_elements() == 0) continue;
      if (!weights.insert(parameter.storage).second) continue;
      Storage gradient = state_.storage(parameter.storage);
      gradient.name += ".gradient";
      gradient.role = Role::kGradient;
      gradient.type.dtype = DType::kF32;
      const ValueId value = program.read_state(state_.add_storage(gradient));
      append_update(builder, {settings_, 0},
                    {program.read_state(rate_), program.read_state(applied_), {}, {}, 7}, parameter.storage,
                    parameter.rest, value);
    }
    verify(program);
  }

  OptimizerSettings settings_;
  Owner owner_;
  StateTable state_;
  StorageId rate_, applied_;
  std::vector<Program> programs_;
  MemoryPlan plan_;
  mutable std::optional<Executor> executor_;
};

// Elements in equal shards, the last ones with padding.
Shard flat_shard(const Parameter& parameter, const Owner& owner, int64_t multiple) {
  const int64_t elements = parameter.global_elements();
  const int64_t each = (elements + owner.count * multiple - 1) / (owner.count * multiple) * multiple;
  const int64_t begin = std::min(owner.number * each, elements);
  const int64_t end = std::min(begin + each, elements);
  return {.slice = Slice::range(begin, end), .padding = each - (end - begin), .owner = owner.number};
}

Shard block_shard(const Parameter& parameter, const Owner& owner, int64_t axis, int64_t multiple = 1) {
  const int64_t parts = parameter.shape[static_cast<size_t>(axis)] / multiple;
  return {.slice = Slice::block(parameter.shape, axis, owner.number * parts / owner.count * multiple,
                                (owner.number + 1) * parts / owner.count * multiple),
          .owner = owner.number};
}

// By the beginning of a name.
std::optional<Shard> toy_shard(const Parameter& parameter, const Owner& owner) {
  const std::string kind = parameter.name.substr(0, parameter.name.find('.'));
  if (kind == "flat") return flat_shard(parameter, owner, kStateBlock);
  if (kind == "vector") return flat_shard(parameter, owner, 1);
  if (kind == "rows") return block_shard(parameter, owner, 0);
  if (kind == "middle") return block_shard(parameter, owner, 1);
  if (kind == "columns") return block_shard(parameter, owner, std::ssize(parameter.shape) - 1, kStateBlock);
  if (kind == "narrow") return block_shard(parameter, owner, 1);
  // One process has all of it, and the others nothing.
  if (kind == "single" && owner.number != owner.count / 2) return Shard{.slice = {}, .owner = owner.number};
  if (kind == "single")
    return Shard{.slice = Slice::whole(parameter.global_elements()), .owner = owner.number};
  // All have it, and the last one writes it.
  if (kind == "shared")
    return Shard{.slice = Slice::whole(parameter.global_elements()), .owner = owner.count - 1};
  return std::nullopt;  // all have it, and number 0 writes it
}

std::vector<LogicalParameter> toy_parameters(DType dtype = DType::kF32, bool is_split = false) {
  const std::vector<std::pair<std::string, std::vector<int64_t>>> shapes = {
      {"flat.a", {41, 300}},       {"flat.b", {17, 512}},     {"columns.matrix", {16, 1024}},
      {"rows.matrix", {9, 512}},   {"rows.small", {5, 7}},    {"middle.cube", {3, 8, 256}},
      {"single.matrix", {70, 70}}, {"shared.vector", {5000}}, {"replicated.bias", {7}},
      {"vector.bias", {50}},       {"narrow.table", {61, 24}}};
  std::vector<LogicalParameter> parameters;
  for (const auto& [name, shape] : shapes) {
    LogicalParameter& logical = parameters.emplace_back();
    logical.parameter.name = name;
    logical.parameter.shape = shape;
    logical.parameter.is_embedding = name == "narrow.table";
    const bool is_matrix = shape.size() > 1;
    logical.dtype = is_matrix ? dtype : DType::kF32;
    logical.is_split = is_matrix && is_split;
  }
  parameters.push_back({parameters[0].parameter, parameters[0].dtype, false, {}});
  parameters.back().parameter.name = "rows.frozen";
  parameters.back().parameter.trainable = false;
  return parameters;
}

// The parameters of a BERT, of two layers, as a session has them.
std::vector<LogicalParameter> bert_parameters(Precision precision) {
  const BertForSequenceClassification model(tiny_bert());
  SessionOptions options;
  options.train = {64, 4, 20};
  options.step.precision = precision;
  const Session session(model, options);
  std::vector<LogicalParameter> parameters;
  for (const Parameter& parameter : session.state().parameters()) {
    const Storage& storage = session.state().storage(parameter.storage);
    parameters.push_back({parameter, storage.type.dtype, parameter.rest.valid(), storage.region});
    Parameter& logical = parameters.back().parameter;
    logical.storage = logical.rest = {};
    logical.offset_elements = 0;
  }
  return parameters;
}

// Columns, rows and flat ranges in turn.
std::optional<Shard> bert_shard(const Parameter& parameter, const Owner& owner) {
  if (parameter.shape.size() < 2) return flat_shard(parameter, owner, 1);
  switch (parameter.name.size() % 3) {
    case 0:
      return block_shard(parameter, owner, 0);
    case 1:
      return block_shard(parameter, owner, 1);
    default:
      return flat_shard(parameter, owner, 1);
  }
}

constexpr std::array<int32_t, 5> kCounts = {1, 2, 3, 4, 7};

// What the shards of so many processes are tested with.
struct Sharding {
  std::vector<LogicalParameter> parameters;
  OptimizerSettings settings;
  ShardOf shard_of;

  Process process(const Owner& owner, bool updates = false) const {
    return {parameters, settings, shard_of, owner, updates};
  }

  // A directory that so many processes write together, each with what it loads from another one.
  fs::path rewrite(const fs::path& from, const fs::path& to, int32_t owners) const {
    StagedDirectory staged(to, owners);
    for (int32_t number = owners - 1; number > 0; --number) {
      StagedPart part(staged.path(), {number, owners});
      Process process = this->process({number, owners});
      process.load(from);
      process.save(part.path());
      part.commit();
    }
    Process process = this->process({0, owners});
    process.load(from);
    process.save(staged.path());
    return staged.commit(owners);
  }
};

// That a process has these elements of the whole, bit for bit.
void expect_slices_of(const std::map<std::string, Process::Held>& whole, const Process& process) {
  for (const auto& [name, held] : process.held()) {
    const Process::Held& of = whole.at(name);
    std::vector<std::byte> expected;
    for (const SliceRun& run : SliceRuns(held.slice)) {
      const auto begin = of.bytes.begin() + run.global * held.width;
      expected.insert(expected.end(), begin, begin + run.length * held.width);
    }
    EXPECT_TRUE(held.bytes == expected) << name << ": " << slice_text(held.slice);
  }
}

// Writes with each number of owners, reads what they wrote with each other number, and compares bits; the files of one
// owner, and the weights that are assembled of any number, are those of an unsliced model.
void expect_every_count_to_read_every_other(const Sharding& sharding) {
  const TestDirectory directory;
  Process whole = sharding.process({});
  whole.randomize(3);
  const auto expected = whole.held();
  fs::create_directories(directory.path() / "whole");
  whole.save(directory.path() / "whole");
  const auto text_of = [&](const fs::path& path, const char* file) { return read_text_file(path / file); };
  for (const int32_t writers : kCounts) {
    SCOPED_TRACE(writers);
    const fs::path written =
        sharding.rewrite(directory.path() / "whole", directory.path() / "sliced", writers);
    EXPECT_EQ(checkpoint_defect(written, VerifiedFiles::kAll), "");
    EXPECT_EQ(std::ssize(list_directory(written)), 2 * writers + 1);
    for (const int32_t readers : kCounts) {
      SCOPED_TRACE(readers);
      for (int32_t number = 0; number < readers; ++number) {
        Process reader = sharding.process({number, readers});
        reader.load(written);
        expect_slices_of(expected, reader);
        if (readers > 1) continue;
        fs::create_directories(directory.path() / "again");
        reader.save(directory.path() / "again");
        for (const char* file : {kModelFile, kStatesFile})
          EXPECT_TRUE(text_of(directory.path() / "again", file) == text_of(directory.path() / "whole", file));
      }
    }
    fs::create_directories(directory.path() / "assembled");
    assemble_weights(directory.path() / "assembled", TensorFiles::open_weights(written), whole.state());
    EXPECT_TRUE(text_of(directory.path() / "assembled", kModelFile) ==
                text_of(directory.path() / "whole", kModelFile));
  }
}

class ShardedState : public testing::TestWithParam<std::pair<std::string, OptimizerSettings>> {};

TEST_P(ShardedState, IsReadAtEveryOtherNumberOfOwners) {
  expect_every_count_to_read_every_other({toy_parameters(), GetParam().second, toy_shard});
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, ShardedState,
    testing::Values(std::pair<std::string, OptimizerSettings>{"adamw", AdamWSettings{}},
                    std::pair<std::string, OptimizerSettings>{"sgd_momentum", SgdSettings{.momentum = 0.9}},
                    std::pair<std::string, OptimizerSettings>{"adagrad", AdagradSettings{}},
                    std::pair<std::string, OptimizerSettings>{
                        "rmsprop", RmsPropSettings{.momentum = 0.9, .centered = true}},
                    std::pair<std::string, OptimizerSettings>{"lion", LionSettings{}},
                    std::pair<std::string, OptimizerSettings>{"adafactor", AdafactorSettings{}},
                    std::pair<std::string, OptimizerSettings>{"adafactor_beta1",
                                                              AdafactorSettings{.beta1 = 0.9}},
                    std::pair<std::string, OptimizerSettings>{"adamw_8bit", AdamW8bitSettings{}},
                    std::pair<std::string, OptimizerSettings>{"lion_8bit", Lion8bitSettings{}}),
    [](const auto& test) { return test.param.first; });

TEST(ShardedWeights, OfEveryFormAreReadAtEveryOtherNumberOfOwners) {
  expect_every_count_to_read_every_other({toy_parameters(DType::kBF16, true), SgdSettings{}, toy_shard});
  expect_every_count_to_read_every_other({toy_parameters(DType::kBF16, false), SgdSettings{}, toy_shard});
}

TEST(ShardedWeights, OfABertAreReadAtEveryOtherNumberOfOwners) {
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16})
    expect_every_count_to_read_every_other({bert_parameters(precision), AdamWSettings{}, bert_shard});
}

// What bf16 lacks of weights that are not trained comes from the files, whole or sliced, that they were read from.
TEST(ShardedWeights, FrozenOnesAreSavedAsTheyWereLoaded) {
  const TestDirectory directory;
  Sharding sharding = {toy_parameters(), SgdSettings{}, toy_shard};
  Process wide = sharding.process({});
  wide.randomize(3);
  wide.save(directory.path());
  for (LogicalParameter& logical : sharding.parameters) {
    logical.parameter.trainable = false;
    logical.dtype = logical.parameter.shape.size() > 1 ? DType::kBF16 : DType::kF32;
  }
  fs::path source = directory.path();
  for (const int32_t owners : {3, 2, 1}) {
    const fs::path target = directory.path() / std::to_string(owners);
    fs::create_directories(target);
    for (int32_t number = 0; number < owners; ++number) {
      Process process = sharding.process({number, owners});
      TorchGenerator generator(1);
      TensorFiles files = TensorFiles::open_weights(source);
      LoadedWeights loaded = load_weights(files, process.state(), process.executor(), generator);
      const OriginalWeights originals{std::move(files), std::move(loaded.contents)};
      save_weights(target, process.state(), process.executor(), &originals, {number, owners});
    }
    source = target;
  }
  EXPECT_TRUE(read_text_file(source / kModelFile) == read_text_file(directory.path() / kModelFile));
}

// An element's first value does not depend on who holds it, whether it is drawn from a counter or in turn.
TEST(ShardedWeights, StartAsWholeOnesDo) {
  std::vector<LogicalParameter> parameters = toy_parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    Initializer& initializer = parameters[i].parameter.initializer;
    initializer.kind = std::array{Initializer::Kind::kNormal, Initializer::Kind::kUniform,
                                  Initializer::Kind::kNormal, Initializer::Kind::kOnes}[i % 4];
    initializer.bound = 0.5F;
    if (parameters[i].parameter.shape.size() == 2) initializer.zero_row = 3;
    parameters[i].region.component = Component::kHead;
  }
  const Sharding sharding = {parameters, SgdSettings{}, toy_shard};
  // Files of a model without any of these parameters: all are drawn as PyTorch draws them.
  const TestDirectory directory;
  SafetensorsWriter writer(directory.path() / kModelFile, {{"other", DType::kF32, {1}}});
  const float other = 1;
  writer.append("other", std::as_bytes(std::span(&other, 1)));
  writer.commit();
  const TensorFiles empty = TensorFiles::open_weights(directory.path());
  for (const bool in_turn : {false, true}) {
    const auto start = [&](Process& process) {
      TorchGenerator generator(17);
      in_turn ? static_cast<void>(load_weights(empty, process.state(), process.executor(), generator))
              : initialize_weights(process.state(), process.executor(), 17);
    };
    Process whole = sharding.process({});
    start(whole);
    const auto expected = whole.held();
    for (const int32_t owners : {2, 5}) {
      for (int32_t number = 0; number < owners; ++number) {
        Process process = sharding.process({number, owners});
        start(process);
        expect_slices_of(expected, process);
      }
    }
  }
}

void expect_updates_of_shards_alone(const Sharding& sharding) {
  const auto updated = [](Process& process) {
    initialize_weights(process.state(), process.executor(), 5);
    for (int32_t step = 0; step < 3; ++step) process.update(step);
  };
  Process whole = sharding.process({}, true);
  updated(whole);
  const auto expected = whole.held();
  for (int32_t number = 0; number < 3; ++number) {
    Process process = sharding.process({number, 3}, true);
    updated(process);
    expect_slices_of(expected, process);
  }
}

std::vector<LogicalParameter> random_parameters(DType dtype, bool is_split) {
  std::vector<LogicalParameter> parameters = toy_parameters(dtype, is_split);
  for (LogicalParameter& logical : parameters)
    logical.parameter.initializer.kind = Initializer::Kind::kNormal;
  return parameters;
}

// An update of shards is the update of the whole, element by element: states, blocks and random bits.
TEST_P(ShardedState, IsUpdatedAsTheWholeIs) {
  const OptimizerSettings& settings = GetParam().second;
  if (std::holds_alternative<AdafactorSettings>(settings)) {
    EXPECT_THROW((Sharding{toy_parameters(), settings, toy_shard}.process({0, 3}, true)), InternalError);
    return;
  }
  expect_updates_of_shards_alone({random_parameters(DType::kF32, false), settings, toy_shard});
  expect_updates_of_shards_alone({random_parameters(DType::kBF16, true), settings, toy_shard});
  const auto in_one_run = [](const Parameter& parameter, const Owner& owner) {
    return std::optional(flat_shard(parameter, owner, kStateBlock));
  };
  expect_updates_of_shards_alone({random_parameters(DType::kBF16, false), settings, in_one_run});
  EXPECT_THROW((Sharding{toy_parameters(DType::kBF16), settings, toy_shard}.process({0, 3}, true)),
               InternalError)
      << "columns without masters";
}

// A process that has a shard writes no whole files, and blocks that share a scale are not cut.
TEST(ShardsOfNoSense, AreOurBug) {
  const TestDirectory directory;
  const Sharding sharding = {toy_parameters(), AdamWSettings{}, toy_shard};
  Process shard = sharding.process({0, 2});
  EXPECT_THROW(save_weights(directory.path(), shard.state(), shard.executor()), InternalError);
  EXPECT_THROW(save_optimizer_states(directory.path() / kStatesFile, shard.state(), shard.executor(),
                                     shard.settings()),
               InternalError);
  const auto cut_anywhere = [](const Parameter& parameter, const Owner& owner) {
    return std::optional(flat_shard(parameter, owner, 1));
  };
  EXPECT_THROW((Sharding{toy_parameters(), AdamW8bitSettings{}, cut_anywhere}.process({0, 7})),
               InternalError);
}

// One process that resumes from what several wrote, and what it says where a part of that is not there.
class CheckpointOfManyOwners : public testing::Test {
 protected:
  CheckpointOfManyOwners() : model_(tiny_bert()), session_(model_, options()) {
    session_.reserve();
    initialize_weights(session_.state(), session_.executor(), 4);
    args_.output_dir = directory_.path().string();
    sharding_ = {bert_parameters(Precision::kFloat32), AdamWSettings{}, bert_shard};
  }

  static SessionOptions options() {
    SessionOptions options;
    options.train = {64, 4, 20};
    return options;
  }

  // checkpoint-N as the session saves it, or as so many owners write it together.
  fs::path save(int64_t step, int32_t owners) {
    TrainerState state;
    state.global_step = step;
    const RunPosition position{.samples_consumed = step};
    const std::vector<fs::path> companions;
    const fs::path whole =
        save_checkpoint({model_, session_, args_, state, position, companions}, session_.executor());
    if (owners == 1) return whole;
    fs::rename(whole, directory_.path() / "whole");
    const fs::path sliced =
        sharding_.rewrite(directory_.path() / "whole", directory_.path() / "parts", owners);
    StagedDirectory staged(directory_.path(), step);
    for (const fs::path& from : {directory_.path() / "whole", sliced}) {
      for (const std::string& name : list_directory(from)) {
        if (name != kManifestName && name != kModelFile && name != kStatesFile)
          copy_file_atomic(from / name, staged.path() / name);
      }
    }
    fs::remove_all(directory_.path() / "whole");
    return staged.commit();
  }

  const TestDirectory directory_;
  BertForSequenceClassification model_;
  Session session_;
  TrainingArguments args_;
  Sharding sharding_;
};

TEST_F(CheckpointOfManyOwners, IsResumedByOne) {
  const NamedWeights before = weights_of(session_);
  const fs::path saved = save(7, 3);
  EXPECT_FALSE(fs::exists(saved / kModelFile));
  EXPECT_EQ(open_model_directory(saved).weights, WeightsFormat::kSliced);
  initialize_weights(session_.state(), session_.executor(), 5);
  const ResumedRun run = load_checkpoint(saved, args_, session_);
  EXPECT_EQ(run.position.samples_consumed, 7);
  EXPECT_TRUE(weights_of(session_) == before);
  EXPECT_EQ(run.unused, std::vector<std::string>{});
  ASSERT_TRUE(run.originals.has_value());
}

TEST_F(CheckpointOfManyOwners, WithoutAPartIsSkippedForTheOneBefore) {
  const fs::path older = save(5, 2);
  const fs::path newer = save(7, 3);
  fs::remove(newer / owner_file_name(kModelFile, {1, 3}));
  EXPECT_TRUE(contains(checkpoint_defect(newer), "model-rank-00001-of-00003.safetensors"));
  args_.resume_from_checkpoint = "true";
  std::vector<std::string> notes;
  EXPECT_EQ(
      resume_checkpoint(args_, notes, [&](const fs::path& path) { load_checkpoint(path, args_, session_); }),
      older);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_TRUE(contains(notes[0], "model-rank-00001-of-00003.safetensors"));
}

// Each bit is checked by who reads it: a changed one in another owner's file is nobody's of those that do not read it.
TEST_F(CheckpointOfManyOwners, AreVerifiedByThoseWhoReadThem) {
  const fs::path saved = save(7, 3);
  const fs::path damaged = saved / owner_file_name(kStatesFile, {2, 3});
  flip_bit(damaged, static_cast<int64_t>(fs::file_size(damaged)) * 8 - 1);
  EXPECT_TRUE(contains(message_of<DamagedFile>([&] { load_checkpoint(saved, args_, session_); }),
                       "optimizer-rank-00002-of-00003.safetensors"));
  Process first = sharding_.process({0, 3});
  EXPECT_NO_THROW(first.load(saved));
  Process last = sharding_.process({2, 3});
  EXPECT_TRUE(contains(message_of<DamagedFile>([&] { last.load(saved); }),
                       "optimizer-rank-00002-of-00003.safetensors"));
}

}  // namespace
}  // namespace shoehorn
