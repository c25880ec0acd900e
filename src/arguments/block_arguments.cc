#include "arguments/block_arguments.h"

#include "arguments/argument_checks.h"
#include "base/error.h"

namespace shoehorn {
namespace {

void refuse_with_another_task(const TrainingArguments& args) {
  const TrainingArguments standard;
  const auto need_task = [&](std::string_view name, bool given) {
    if (given)
      throw user_error("[{}] expected task {} with it, got {}; only its texts are cut into blocks", name,
                       kCausalLanguageModel, args.task);
  };
  need_task("block_size", args.block_size.has_value());
  need_task("packing", args.packing != standard.packing);
  need_task("block_remainder", args.block_remainder != standard.block_remainder);
  need_task("add_eos", args.add_eos);
  need_task("keep_linebreaks", !args.keep_linebreaks);
  if (!args.train_file_weights.empty()) {
    throw user_error(
        "[train_file_weights] expected task {} with it, got {}; files of other tasks are not mixed",
        kCausalLanguageModel, args.task);
  }
}

void validate_mixture(const TrainingArguments& args) {
  train_file_weights_of(args);
  if (args.train_file_weights.empty()) {
    if (args.stopping_strategy != TrainingArguments().stopping_strategy) {
      throw user_error(
          "[stopping_strategy] expected train_file_weights with {}, got none; without them no file ends "
          "before another",
          args.stopping_strategy);
    }
    return;
  }
  if (args.max_train_samples) {
    throw user_error(
        "[max_train_samples] expected none with train_file_weights, got {}; --max_steps ends a run early",
        *args.max_train_samples);
  }
  if (args.train_sampling_strategy == "group_by_length") {
    throw user_error(
        "[train_sampling_strategy] expected random or sequential with train_file_weights, got {}, which needs an order "
        "of its own",
        args.train_sampling_strategy);
  }
}

}  // namespace

void validate_block_arguments(const TrainingArguments& args) {
  if (args.validation_split_percentage) {
    require_between("validation_split_percentage", static_cast<double>(*args.validation_split_percentage), 0,
                    99, "0 (nothing) to 99");
  }
  validate_mixture(args);
  if (args.task.empty()) return;  // the model's config will say
  if (args.task != kCausalLanguageModel) {
    refuse_with_another_task(args);
    return;
  }
  if (args.block_size)
    require(*args.block_size >= 2, "block_size", "2 or more tokens", static_cast<double>(*args.block_size));
  if (args.packing == block_packing_name(BlockPacking::kDocuments) &&
      args.block_remainder != block_remainder_name(BlockRemainder::kKeep)) {
    throw user_error(
        "[block_remainder] expected keep with packing documents, got {}; where no text is cut nothing is left over",
        args.block_remainder);
  }
  if (args.text_column_names.size() > 1) {
    throw user_error("[text_column_names] expected one column with task {}, got {}", kCausalLanguageModel,
                     fmt::join(args.text_column_names, ", "));
  }
}

std::vector<double> train_file_weights_of(const TrainingArguments& args) {
  return parse_mixture_weights("train_file_weights", args.train_file_weights);
}

StoppingStrategy stopping_strategy_of(const TrainingArguments& args) {
  return find_stopping_strategy(args.stopping_strategy).value();
}

BlockOptions block_options_of(const TrainingArguments& args) {
  CHECK(args.block_size.has_value(), "no block size");
  return {.block_size = *args.block_size,
          .packing = find_block_packing(args.packing).value(),
          .remainder = find_block_remainder(args.block_remainder).value()};
}

}  // namespace shoehorn
