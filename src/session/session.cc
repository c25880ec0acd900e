#include "session/session.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/rounding.h"
#include "exec/backends.h"
#include "ops/op_info.h"
#include "ranks/agreement.h"
#include "session/batch_feed.h"
#include "session/loss_scale_state.h"
#include "session/recompute_choice.h"

namespace shoehorn {

namespace {

// For views of what is not a batch or a result: parameters and states, a piece at a time.
constexpr int64_t kPieceBytes = int64_t{1} << 20;

}  // namespace

Session::Session(const Model& model, SessionOptions options)
    : options_(std::move(options)),
      backend_(options_.backend ? options_.backend : make_backend(kDefaultBackend, options_.threads)) {
  const auto start = std::chrono::steady_clock::now();
  StepOptions& step = options_.step;
  std::vector<PassRecord>* const records = options_.is_compared ? nullptr : &passes_;
  const Verification verification = options_.is_compared ? Verification::kOnce : Verification::kEachPass;
  const bool has_set = !step.recompute_set.empty() || step.activation_budget.has_value();
  if (step.recompute_every_n_layers == 0 && !has_set)
    step.recompute_every_n_layers = model.recompute_every_n_layers();
  family_ = begin_programs(model, options_.kind, {options_.train, options_.smaller_train},
                           {options_.evaluation, options_.smaller_evaluation}, step, records, verification);
  if (options_.kind == RunKind::kTrain && step.activation_budget) {
    StepTrial trial(family_, step, *backend_);
    step.recompute_set = choose_recompute_set(trial, *step.activation_budget).names;
  }
  finish_programs(family_, step, records, verification);
  if (options_.staging_bytes > 0) {
    Storage ahead;
    ahead.name = "batches_ahead";
    ahead.type = {DType::kU8, {options_.staging_bytes}};
    ahead.role = Role::kInput;
    ahead.space = options_.staging_space;
    staging_ = family_.state->add_storage(std::move(ahead));
  }
  if (options_.score_bytes > 0) {
    Storage scored;
    scored.name = "scored_outputs";
    scored.type = {DType::kU8, {options_.score_bytes}};
    scored.role = Role::kInput;
    scored.space = AddressSpace::kHost;
    score_memory_ = family_.state->add_storage(std::move(scored));
  }
  options_.executor.host_staging =
      add_host_staging(*family_.state, backend_->machine(), host_staging_bytes());
  plan_ = plan_memory(*family_.state, family_.programs, *backend_,
                      options_.is_compared ? PackGoal::kNearly : PackGoal::kLeast);
  planning_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Session::~Session() {
  executor_.reset();
  if (!options_.keeps_code) backend_->release_unused_code();
}

void Session::compile() {
  for (const Program& program : family_.programs) {
    for (const Node& node : program.nodes()) backend_->compile(program, node);
  }
}

void Session::reserve() {
  executor_.emplace(*family_.state, family_.programs, plan_, *backend_, options_.executor);
  if (family_.loss_scale.scale.valid())
    write_loss_scale(*executor_, family_.loss_scale, first_loss_scale(options_.step.loss_scale));
  if (family_.scalars.class_weights.valid()) {
    executor_->write(family_.scalars.class_weights, 0, std::as_bytes(std::span(options_.step.class_weights)));
  }
}

void Session::after_load() {
  if (const ProgramId program = family_.find(ProgramKind::kAfterLoad); program.valid())
    executor_->run(program, {});
}

void Session::replicate() {
  if (const ProgramId program = family_.find(ProgramKind::kReplicate); program.valid())
    executor_->run(program, {});
}

std::span<std::byte> Session::staging() const {
  if (!staging_.valid()) return {};
  return executor_->host_storage(staging_);
}

std::span<std::byte> Session::score_memory() const {
  if (!score_memory_.valid()) return {};
  return executor_->host_storage(score_memory_);
}

// What is viewed at the same time: a micro-batch and the results of a program, or a micro-batch and a piece.
int64_t Session::host_staging_bytes() const {
  int64_t results = kPieceBytes;
  for (const Program& program : family_.programs) {
    int64_t bytes = 0;
    for (const Program::Result& result : program.results())
      bytes += round_up(program.type(result.value).bytes(), kArenaAlignment);
    results = std::max(results, bytes);
  }
  const auto batch_bytes = [this](const BatchInputs& inputs) {
    int64_t bytes = 0;
    for (const BatchColumn column : batch_columns()) {
      const StorageId storage = inputs.find(column);
      if (storage.valid()) bytes += round_up(state().storage(storage).type.bytes(), kArenaAlignment);
    }
    return bytes;
  };
  int64_t batch = batch_bytes(family_.evaluation_batch);
  for (const BatchInputs& inputs : family_.train_batches) batch = std::max(batch, batch_bytes(inputs));
  return batch + results;
}

int64_t Session::sent_bytes_in_step(int64_t rank) const {
  double bytes = 0;
  for (const Program& program : family_.programs) {
    for (const Node& node : program.nodes())
      bytes += static_cast<double>(sent_bytes({program, node}, rank)) * calls_in_step(program);
  }
  const RankOptions& ranks = options_.step.ranks;
  if (ranks.are_replicas() && rank == 0 && !family_.train_batches.empty())
    bytes += static_cast<double>((ranks.world_size - 1) * scattered_bytes(family_.train_batches[0]));
  bytes += stop_agreements_in_step() * static_cast<double>((ranks.world_size - 1) * kStopWordBytes);
  return std::llround(bytes);
}

double Session::stop_agreements_in_step() const {
  const RankOptions& ranks = options_.step.ranks;
  if (ranks.world_size == 1) return 0;
  return 1.0 / static_cast<double>(std::max<int64_t>(1, ranks.local_steps()));
}

int64_t Session::parameter_count() const {
  int64_t count = 0;
  for (const Parameter& parameter : state().parameters()) count += parameter.global_elements();
  return count;
}

int64_t Session::trainable_parameter_count() const {
  int64_t count = 0;
  for (const Parameter& parameter : state().parameters())
    count += parameter.trainable ? parameter.global_elements() : 0;
  return count;
}

double Session::calls_in_step(const Program& program) const {
  if (program.bucket() == 0 && program.kind() == ProgramKind::kEvaluate)
    return options_.kind == RunKind::kEvaluate ? 1 : 0;
  if (program.kind() == ProgramKind::kOuterUpdate)
    return 1 / static_cast<double>(options_.step.ranks.local_steps());
  return static_cast<double>(family_.runs_in_step(program, options_.step.gradient_accumulation_steps));
}

double Session::sum_flops(bool (*counts)(const OpInfo&)) const {
  double flops = 0;
  for (const Program& program : family_.programs) {
    double once = 0;
    for (const Node& node : program.nodes()) {
      const OpInfo& info = op_info(node.kind);
      if (counts(info)) once += info.cost({program, node}).flops;
    }
    flops += once * calls_in_step(program);
  }
  return flops;
}

double Session::step_flops() const {
  return sum_flops([](const OpInfo&) { return true; });
}

double Session::step_product_flops() const {
  return sum_flops([](const OpInfo& info) { return info.op_class == OpClass::kContraction; });
}

}  // namespace shoehorn
