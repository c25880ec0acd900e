#include "session/batching.h"

#include <algorithm>
#include <string_view>

#include "arguments/batch_size_ramp.h"
#include "base/error.h"
#include "model/task.h"
#include "session/batch_feed.h"

namespace shoehorn {

int64_t padding_of(const TrainingArguments& args) {
  return args.pad_to_max_length ? args.max_seq_length : 0;
}

BatchOptions batch_options(const TrainingArguments& args, int32_t rank) {
  BatchOptions options;
  options.micro_batch_size = args.per_device_train_batch_size;
  options.gradient_accumulation_steps = micro_batches_of_step(args);
  options.ramp = batch_size_ramp_of(args);
  options.drop_last = args.dataloader_drop_last;
  options.pad_to_max_length = padding_of(args);
  // The first of replicas packs those of all ranks.
  if (!are_replicas(args)) {
    options.rank = rank;
    options.world_size = static_cast<int32_t>(args.world_size);
  }
  options.divides_by_own_targets = args.local_sgd_steps > 0 && args.world_size > 1;
  // Gradients are scattered, or weights gathered, in each micro-batch.
  options.deals_evenly = args.zero_stage >= 2 && args.gradient_accumulation_steps > 1 &&
                         args.accumulation_order == "micro_batch";
  return options;
}

SamplerOptions sampler_options(const TrainingArguments& args) {
  return {.strategy = parse_sampling_strategy(args.train_sampling_strategy),
          .seed = args.seed,
          .data_seed = args.data_seed,
          .group_size = effective_batch_size(args)};
}

TrainingSteps steps_of(const TrainingArguments& args, int64_t samples) {
  return training_steps({.samples = samples,
                         .micro_batch_size = args.per_device_train_batch_size,
                         .gradient_accumulation_steps = micro_batches_of_step(args),
                         .drop_last = args.dataloader_drop_last,
                         .ramp = batch_size_ramp_of(args),
                         .num_train_epochs = args.num_train_epochs,
                         .max_steps = args.max_steps});
}

namespace {

Sampler sampler_of(const TrainingArguments& args, const Dataset& dataset) {
  const SamplerOptions options = sampler_options(args);
  if (const Mixture* mixture = dataset.source().mixture(); mixture != nullptr)
    return Sampler(options, *mixture);
  if (options.strategy == SamplingStrategy::kGroupByLength) return Sampler(options, dataset.lengths());
  return Sampler(options, dataset.size());
}

// The first of replicas packs for all.
int64_t workers_of(const TrainingArguments& args, int32_t rank) {
  return are_replicas(args) && rank > 0 ? 0 : args.dataloader_num_workers;
}

int64_t prefetch_factor_of(const TrainingArguments& args) {
  return args.dataloader_prefetch_factor.value_or(2);
}

}  // namespace

std::unique_ptr<WindowIterator> make_windows(const TrainingArguments& args, const Dataset& dataset,
                                             int32_t rank) {
  return std::make_unique<WindowIterator>(dataset, sampler_of(args, dataset), batch_options(args, rank),
                                          workers_of(args, rank), prefetch_factor_of(args));
}

WindowNeeds window_needs_of(const TrainingArguments& args, const Dataset& dataset, int32_t rank) {
  return window_needs(dataset, batch_options(args, rank), workers_of(args, rank), prefetch_factor_of(args));
}

void make_room_for(const WindowNeeds& windows, const TrainingArguments& args, SessionOptions& options) {
  options.train = windows.capacity;
  options.train.longest_sequence = std::max(options.train.longest_sequence, padding_of(args));
  options.staging_bytes = windows.staging_bytes;
  options.staging_space = args.dataloader_pin_memory ? AddressSpace::kPinnedHost : AddressSpace::kHost;
}

namespace {

// Names the first sample with an id beyond the model's vocabulary. There may be none: the largest id is a bound.
void check_ids(const Model& model, const Dataset& dataset, TokenStream stream, const char* which) {
  std::vector<int32_t> ids;
  for (int64_t sample = 0; sample < dataset.distinct_size(); ++sample) {
    ids.resize(static_cast<size_t>(dataset.length(sample, stream)));
    dataset.source().copy_ids(sample, stream, ids);
    const auto beyond = std::ranges::find_if(ids, [&](int32_t id) { return id >= model.vocab_size(); });
    if (beyond == ids.end()) continue;
    throw user_error(
        "[{} data] expected token ids below {}, the model's vocabulary, got {} in sample {}; is the "
        "tokenizer the model's?",
        which, model.vocab_size(), *beyond, sample);
  }
}

}  // namespace

void check_data(const Model& model, const Dataset& dataset, const char* which) {
  if (dataset.size() == 0) return;
  // Positions begin anew with each document.
  const int64_t longest =
      std::max(dataset.facts().longest_document, dataset.max_length(TokenStream::kDecoder));
  if (longest > model.max_positions()) {
    throw user_error(
        "[{} data] expected samples of at most {} tokens, the model's positions, got one of {}; use a "
        "smaller --max_seq_length",
        which, model.max_positions(), longest);
  }
  if (dataset.label_kind() == LabelKind::kNone && std::string_view(which) == "training")
    throw user_error("[{} data] expected labels, got samples without labels", which);
  model.task().check_labels(dataset, which);
  for (const TokenStream stream : kTokenStreams) {
    if (dataset.facts().of(stream).largest_id >= model.vocab_size()) check_ids(model, dataset, stream, which);
  }
}

void check_columns_are_read(const Dataset& dataset, const BatchInputs& batch, const char* which) {
  if (!dataset.has_decoder_tokens() || batch.find(BatchColumn::kDecoderInputIds).valid()) return;
  throw user_error(
      "[{} data] expected samples without decoder_input_ids, which the model does not read, got samples with "
      "them",
      which);
}

}  // namespace shoehorn
