#include "passes/pipeline.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/error.h"
#include "io/file.h"
#include "model/task.h"
#include "ops/dump.h"
#include "ops/verify.h"
#include "passes/accumulate.h"
#include "passes/data_parallel.h"
#include "passes/freeze.h"
#include "passes/fuse.h"
#include "passes/fuse_added_product.h"
#include "passes/fuse_attention.h"
#include "passes/fuse_vocabulary_gradient.h"
#include "passes/gather_early.h"
#include "passes/local_sgd.h"
#include "passes/lora.h"
#include "passes/loss_scale.h"
#include "passes/mixed_precision.h"
#include "passes/neftune.h"
#include "passes/recompute.h"
#include "passes/recompute_set.h"
#include "passes/replicas.h"
#include "passes/update.h"
#include "passes/verify_collectives.h"
#include "passes/zero.h"

namespace shoehorn {

namespace {

void backward(ProgramFamily& family, const StepOptions&) {
  const StorageId scale = family.loss_scale.scale;
  for (const ProgramId step : family.all(ProgramKind::kTrainStep)) {
    Program& program = family.program(step);
    family.gradients.push_back(append_backward(program, program.result("loss"),
                                               scale.valid() ? program.read_state(scale) : ValueId{}));
  }
}

void dump_programs(const ProgramFamily& family, const std::string& directory, size_t number,
                   const std::string& pass) {
  ensure_writable_directory(directory);
  for (const Program& program : family.programs) {
    const auto file =
        std::filesystem::path(directory) / fmt::format("{:02}-{}.{}.txt", number, pass, program.name());
    errno = 0;
    std::ofstream out(file);
    out << dump(program);
    if (!out.flush()) throw_system_error(file, "write it for --dump_program", errno != 0 ? errno : EIO);
  }
}

Program capture(const Model& model, ProgramFamily& family, const StepOptions& options, ProgramKind kind,
                int32_t bucket) {
  Program program(kind, family.state.get(), bucket);
  const bool training = program.traits().trains;
  const BatchCapacity& capacity = family.capacity_of(program);
  add_batch_counts(program, capacity);
  ModelBuilder builder(program, family.batch_of(program), capacity, family.scalars, training, options.seed);
  const Task& task = model.task();
  const Outputs outputs = model.forward(builder);
  const Tensor loss = task.loss(builder, outputs,
                                {.label_smoothing = options.label_smoothing,
                                 .z_loss = training ? options.z_loss : 0,
                                 .class_weights = builder.class_weights()});
  program.add_result("loss", loss.id());
  if (task.counts_right_targets() && !training) program.add_result("right", builder.right_targets(loss).id());
  if (const auto scored = task.scored_output(); scored && !training)
    program.add_result(*scored, outputs.at(*scored).id());
  return program;
}

// Nodes that nobody has named yet are the work of `pass`, a static string.
void name_new_nodes(ProgramFamily& family, std::string_view pass) {
  for (Program& program : family.programs) {
    for (Node& node : program.nodes()) {
      if (node.pass.empty()) node.pass = pass;
    }
  }
}

void check_options(const StepOptions& options) {
  for (const std::string& skipped : options.skip_passes) {
    std::vector<std::string> names;
    for (const Pass& pass : pass_list()) {
      if (!pass.can_skip) continue;
      if (!pass.group.empty() && std::find(names.begin(), names.end(), pass.group) == names.end())
        names.push_back(pass.group);
      names.push_back(pass.name);
    }
    const bool known = std::find(names.begin(), names.end(), skipped) != names.end();
    if (!known)
      throw user_error("[--skip_pass] expected one of {}, got '{}'", fmt::join(names, ", "), skipped);
  }
  const bool has_set = !options.recompute_set.empty() || options.activation_budget.has_value();
  if (has_set && options.recompute_every_n_layers != 0) {
    throw user_error(
        "[--recompute_set, --activation_budget] expected a run without --gradient_checkpointing, got both; whole layers "
        "and chosen values are two ways to say what is recomputed");
  }
  if (has_set && options.skip_passes.contains("rematerialize")) {
    throw user_error(
        "[--skip_pass rematerialize] expected neither --recompute_set nor --activation_budget with it, got one: this pass "
        "makes their values again");
  }
  if (options.update_in_backward && options.max_grad_norm > 0) {
    throw user_error(
        "[--update_in_backward] expected --max_grad_norm 0, got {}: clipping by the global norm needs every "
        "gradient before the first update",
        options.max_grad_norm);
  }
  if (options.update_in_backward && options.gradient_accumulation_steps > 1 &&
      options.accumulation_order != AccumulationOrder::kLayer) {
    throw user_error(
        "[--update_in_backward] expected --accumulation_order layer_major with {} accumulation steps, got "
        "micro_batch: a gradient is complete only after the last micro-batch",
        options.gradient_accumulation_steps);
  }
}

void check_buckets(const BatchBuckets& buckets) {
  const BatchCapacity& largest = buckets.largest;
  for (const BatchCapacity& smaller : buckets.smaller) {
    CHECK(
        smaller.sequences > 0 && smaller.tokens <= largest.tokens && smaller.sequences <= largest.sequences &&
            smaller.longest_sequence <= largest.longest_sequence,
        "a bucket of {} tokens, {} sequences and at most {} tokens in one beside the largest of {}, {} and {}",
        smaller.tokens, smaller.sequences, smaller.longest_sequence, largest.tokens, largest.sequences,
        largest.longest_sequence);
  }
}

void check_precision(const StepOptions& options, RunKind kind) {
  if (options.update_in_backward && options.precision == Precision::kFloat16 &&
      options.loss_scale.fixed == 0) {
    throw user_error(
        "[--update_in_backward] expected --bf16 or a fixed --loss_scale, got --fp16 with a dynamic one: "
        "whether a step overflowed is known behind its last gradient, when the first are used and gone");
  }
  if (kind == RunKind::kTrain && options.master_weights == MasterWeights::kNone &&
      options.precision != Precision::kBfloat16) {
    throw user_error(
        "[--master_weights none] expected --bf16 with it, got {}: only a bfloat16 has the range of the fp32 "
        "master that it replaces",
        options.precision == Precision::kFloat16 ? "--fp16" : "fp32 products");
  }
  if (kind == RunKind::kTrain && options.precision == Precision::kBfloat16 &&
      options.evaluation_precision.value_or(Precision::kBfloat16) != Precision::kBfloat16) {
    throw user_error(
        "[--fp16_full_eval] expected --bf16_full_eval or neither with --bf16, got fp16 for evaluation: the "
        "weights are kept as bfloat16 halves and rests, which evaluation reads as they are");
  }
}

}  // namespace

const std::vector<Pass>& pass_list() {
  static const std::vector<Pass> list = {
      // What is trained, before anything is built on it; patterns of `freeze` see the adapters too.
      {"lora", Exactness::kChangesNumerics, false, lora},
      {"freeze", Exactness::kChangesNumerics, false, freeze},
      // At what the model itself looks up; what is fused later knows nothing of it.
      {"neftune", Exactness::kChangesNumerics, false, neftune},
      // What is not read is not computed; it looks at the model's own ops, which the next passes fuse.
      {"gather_early", Exactness::kRoundingOnly, true, gather_early},
      // Before the backward, so that each fused op brings its own; kernel boundaries are frozen from here on.
      // Attention's three products with their biases first, then what turns the heads of its queries and keys, then gates, so that a gate's bias is its product's, then the
      // chains that begin with a bias, and the biases that are left go into their products.
      {"fuse_attention", Exactness::kRoundingOnly, true, fuse_attention, "fuse"},
      {"fuse_norm_rotary", Exactness::kRoundingOnly, true, fuse_norm_rotary, "fuse"},
      {"fuse_residual_norm", Exactness::kRoundingOnly, true, fuse_residual_norm, "fuse"},
      {"fuse_gated_activation", Exactness::kRoundingOnly, true, fuse_gated_activation, "fuse"},
      {"fuse_bias_activation", Exactness::kRoundingOnly, true, fuse_bias_activation, "fuse"},
      {"fuse_bias", Exactness::kRoundingOnly, true, fuse_bias, "fuse"},
      {"fuse_vocabulary_loss", Exactness::kRoundingOnly, true, fuse_vocabulary_loss, "fuse"},
      // Types of the kernels that will run, in each program its own: the backward follows them.
      {"mixed_precision", Exactness::kChangesNumerics, true, mixed_precision},
      // The gradient of the loss, with which the backward begins; `update` takes the scale out again.
      {"loss_scale", Exactness::kChangesNumerics, false, loss_scale},
      // Gradients join the program; from here on passes move work and memory, not maths.
      {"backward", Exactness::kExact, false, backward},
      // Before what asks which values the backward reads: the loss's gradients no longer do.
      {"fuse_vocabulary_gradient", Exactness::kRoundingOnly, true, fuse_vocabulary_gradient, "fuse"},
      // Sums of gradients are there too; what is kept is chosen among what is left.
      {"fuse_added_product", Exactness::kRoundingOnly, true, fuse_added_product, "fuse"},
      // Needs the backward, to see which values it keeps alive.
      {"recompute", Exactness::kExact, true, recompute},
      // After layers are recomputed as wholes, what is left of cheap outputs is made again.
      {"rematerialize", Exactness::kExact, true, rematerialize},
      // States by parameter, while programs still read whole weights; before what makes storages for gradients.
      {"shard_weights", Exactness::kRoundingOnly, false, shard_weights},
      // Copies or splits the step by micro-batch, clones included.
      {"accumulate", Exactness::kRoundingOnly, false, accumulate},
      // Each gradient once a step, when it is complete; what follows sees the sums of all ranks.
      {"data_parallel", Exactness::kRoundingOnly, false, data_parallel},
      // In place of that: the first rank has the batch, the weights and the update, and the others compute for it.
      {"replicas", Exactness::kRoundingOnly, false, replicas},
      // Or: each rank's update is its own, and weights are averaged by a program of its own.
      {"local_sgd", Exactness::kChangesNumerics, false, local_sgd},
      // In front of their readers as these now stand; before updates, which wait for readers of what they overwrite.
      {"gather_weights", Exactness::kExact, false, gather_weights},
      // Once every gradient is complete, wherever that is.
      {"update", Exactness::kExact, false, update},
      // Moves updates to where their gradients become complete.
      {"update_in_backward", Exactness::kExact, false, update_in_backward},
      // Joins the updates that are left at the end.
      {"fuse_update", Exactness::kExact, true, fuse_update},
      // Behind every update.
      {"gather_updated", Exactness::kExact, false, gather_updated},
  };
  return list;
}

std::string_view exactness_name(Exactness exactness) {
  switch (exactness) {
    case Exactness::kExact:
      return "exact";
    case Exactness::kRoundingOnly:
      return "rounding only";
    case Exactness::kChangesNumerics:
      return "changes numerics";
  }
  return "unknown";
}

bool is_skipped(const Pass& pass, const StepOptions& options) {
  return options.skip_passes.contains(pass.name) ||
         (!pass.group.empty() && options.skip_passes.contains(pass.group));
}

namespace {

constexpr std::string_view kFirstOfFinish = "recompute";

void verify_all(const ProgramFamily& family) {
  for (const Program& program : family.programs) verify(program);
  verify_collectives(family);
}

// The passes from number `first` to before number `last`, counted from 0.
void run_passes(ProgramFamily& family, const StepOptions& options, size_t first, size_t last,
                std::vector<PassRecord>* records, Verification verification) {
  for (size_t i = first; i < last; ++i) {
    const Pass& pass = pass_list()[i];
    if (is_skipped(pass, options)) continue;
    const auto start = std::chrono::steady_clock::now();
    pass.run(family, options);
    name_new_nodes(family, pass.name);
    if (verification == Verification::kEachPass) verify_all(family);
    if (records != nullptr) {
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      records->push_back(
          {pass.name, elapsed.count(), static_cast<int64_t>(family.programs[0].nodes().size())});
    }
    if (!options.dump_directory.empty()) dump_programs(family, options.dump_directory, i + 1, pass.name);
  }
}

size_t first_of_finish() {
  const auto& list = pass_list();
  const auto found =
      std::find_if(list.begin(), list.end(), [](const Pass& pass) { return pass.name == kFirstOfFinish; });
  return static_cast<size_t>(found - list.begin());
}

}  // namespace

ProgramFamily build_programs(const Model& model, RunKind kind, const BatchBuckets& train,
                             const BatchBuckets& evaluation, const StepOptions& options,
                             std::vector<PassRecord>* records) {
  ProgramFamily family = begin_programs(model, kind, train, evaluation, options, records);
  finish_programs(family, options, records);
  return family;
}

void finish_programs(ProgramFamily& family, const StepOptions& options, std::vector<PassRecord>* records,
                     Verification verification) {
  // Where fusions are skipped, the names of what they make are not there.
  if (options.skip_passes.empty()) {
    for (const ProgramId step : family.all(ProgramKind::kTrainStep))
      check_recompute_set(family.program(step), options.recompute_set);
  }
  run_passes(family, options, first_of_finish(), pass_list().size(), records, verification);
  if (verification == Verification::kOnce) verify_all(family);
}

void finish_programs_unchecked(ProgramFamily& family, const StepOptions& options) {
  for (size_t i = first_of_finish(); i < pass_list().size(); ++i) {
    const Pass& pass = pass_list()[i];
    if (!is_skipped(pass, options)) pass.run(family, options);
  }
}

ProgramFamily begin_programs(const Model& model, RunKind kind, const BatchBuckets& train,
                             const BatchBuckets& evaluation, const StepOptions& options,
                             std::vector<PassRecord>* records, Verification verification) {
  check_options(options);
  check_precision(options, kind);
  check_local_sgd(options);
  check_zero(options);
  check_replicas(options);
  check_buckets(train);
  check_buckets(evaluation);
  ProgramFamily family;
  family.state->set_base_model_prefix(model.base_model_prefix());
  family.state->set_other_names(model.other_names());
  family.adapters.task_type = model.task().peft_task_type();
  family.adapters.default_targets = model.lora_targets();
  family.adapters.default_modules_to_save = model.lora_modules_to_save();
  family.scalars = add_scalar_storages(*family.state);
  if (!options.class_weights.empty()) {
    const auto classes = static_cast<int64_t>(options.class_weights.size());
    CHECK(classes == model.task().num_labels(), "{} weights of {} classes", classes,
          model.task().num_labels());
    Storage weights;
    weights.name = "class_weights";
    weights.type = {DType::kF32, {classes}};
    weights.role = Role::kScalar;
    family.scalars.class_weights = family.state->add_storage(std::move(weights));
  }
  family.loss = add_scalar(*family.state, "loss", DType::kF32);
  if (kind == RunKind::kTrain) {
    if (options.max_grad_norm > 0 && options.ranks.updates())
      family.grad_norm = add_scalar(*family.state, "grad_norm", DType::kF32);
    family.train_buckets = train;
    family.train_batches.emplace_back(*family.state, train.largest, 0);
    for (int32_t bucket = 0; bucket < train.size(); ++bucket)
      family.programs.push_back(capture(model, family, options, ProgramKind::kTrainStep, bucket));
  }
  if (evaluation.size() > 0) {
    family.evaluation_buckets = evaluation;
    family.evaluation_batch = BatchInputs(*family.state, evaluation.largest, 0, "evaluation.");
    for (int32_t bucket = 0; bucket < evaluation.size(); ++bucket)
      family.programs.push_back(capture(model, family, options, ProgramKind::kEvaluate, bucket));
  }
  name_new_nodes(family, "model");
  assign_weight_decay(*family.state, options);
  if (!options.dump_directory.empty()) dump_programs(family, options.dump_directory, 0, "capture");
  run_passes(family, options, 0, first_of_finish(), records, verification);
  return family;
}

}  // namespace shoehorn
