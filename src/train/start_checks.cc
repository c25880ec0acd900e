#include "train/start_checks.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>

#include "base/error.h"
#include "base/format.h"
#include "base/rounding.h"
#include "data/data_files.h"
#include "data/data_format.h"
#include "io/file.h"
#include "io/input_stream.h"
#include "passes/local_sgd.h"
#include "ranks/agreement.h"
#include "state/adapter_weights.h"
#include "train/evaluation.h"

namespace shoehorn {

namespace {

// How many checkpoints save_strategy writes from the state on; at most.
int64_t checkpoints_to_come(const TrainingArguments& args, const TrainerState& state) {
  const int64_t steps = std::max<int64_t>(0, state.max_steps - state.global_step);
  const auto every = [steps](int64_t interval) { return ceil_divide(steps, std::max<int64_t>(1, interval)); };
  const auto epochs = [&] { return std::min(steps, state.num_train_epochs); };
  if (args.save_strategy == "steps") return every(state.save_steps);
  if (args.save_strategy == "epoch") return epochs();
  if (args.save_strategy == "best") return args.eval_strategy == "steps" ? every(state.eval_steps) : epochs();
  return 0;
}

// Parameters that were never trained may be copied from files in fp32, whatever they are kept in.
int64_t saved_bytes(const StateTable& state, const Parameter& parameter) {
  const bool is_only_half = parameter.trainable && !parameter.rest.valid() &&
                            state.storage(parameter.storage).type.dtype == DType::kBF16;
  return parameter.global_elements() * (is_only_half ? 2 : 4);
}

}  // namespace

void check_metric_for_best_model(const TrainingArguments& args, const Task& task, const Dataset& evaluation) {
  if (args.metric_for_best_model.empty() || args.eval_strategy == "no") return;
  if (evaluation.label_kind() == LabelKind::kNone) {
    throw user_error("[metric_for_best_model] expected labels in the evaluation data to compute {}, got none",
                     args.metric_for_best_model);
  }
  const std::vector<std::string> names = evaluation_metric_names(task, args.prediction_loss_only);
  const std::string name = full_metric_name(args.metric_for_best_model);
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  if (!args.prediction_loss_only) {
    const ScoreDetails details = task.make_score()->details(task.label_map().names);
    for (const auto& [of_class, value] : details.metrics()) {
      if ("eval_" + of_class == name) return;
    }
  }
  const std::string nearest = nearest_name(name, names);
  throw user_error("[metric_for_best_model] expected one of {}, got '{}'{}", fmt::join(names, ", "), name,
                   nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest));
}

void check_data_files(const TrainingArguments& args) {
  int64_t from_standard_input = 0;
  const auto check = [&](std::string_view flag, const std::string& names) {
    for (const std::filesystem::path& path : find_data_files(flag, names).paths()) {
      if (is_standard_input(path)) {
        if (++from_standard_input > 1)
          throw user_error(
              "[{}] expected a file, got standard input, which is read already; it can be read once", flag);
        continue;
      }
      data_format_of(path);
      open_input(path);
    }
  };
  check("--train_file", args.train_file);
  const bool evaluates = args.do_eval.value_or(true) || args.eval_on_start;
  if (evaluates && !args.validation_file.empty()) check("--validation_file", args.validation_file);
}

void check_files_can_be_written(const std::filesystem::path& directory,
                                const std::vector<std::string>& names) {
  for (const std::string& name : names) const AtomicFile probe(directory / name);
}

void check_directory_is_shared(const std::filesystem::path& directory, Communicator& ranks) {
  // Named as a file under construction: what a killed run leaves of it the next one removes (recover_checkpoints).
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  const std::filesystem::path mark =
      directory / gather_texts(ranks, fmt::format(".shared.tmp-{}-{}", getpid(), now))[0];
  if (ranks.is_main()) write_text_atomic(mark, "");
  wait_for_all(ranks);
  std::error_code is_absent;
  const std::vector<bool> seen = gather_values(ranks, std::filesystem::exists(mark, is_absent));
  if (ranks.is_main()) remove_path(mark);
  std::vector<std::string> without;
  for (int32_t rank = 0; rank < ranks.size(); ++rank) {
    if (!seen[static_cast<size_t>(rank)]) without.push_back(ranks.name_of(rank));
  }
  if (without.empty()) return;
  throw user_error(
      "[--output_dir {}] expected the directory of {} on all ranks, which write or read parts of its checkpoints, got another "
      "on {}; give one on a file system that the hosts share",
      directory.string(), ranks.name_of(0), fmt::join(without, ", "));
}

int64_t saved_model_bytes(const Session& session) {
  const StateTable& state = session.state();
  int64_t bytes = 0;
  if (session.family().adapters.empty()) {
    for (const Parameter& parameter : state.parameters()) bytes += saved_bytes(state, parameter);
  } else {
    for (const AdapterTensor& tensor : adapter_file_tensors(session.family()))
      bytes += saved_bytes(state, state.parameter(tensor.parameter));
  }
  return bytes;
}

DiskNeed disk_need_of(const TrainingArguments& args, const Session& session, const TrainerState& state,
                      bool saves_model) {
  DiskNeed need;
  const int64_t model_bytes = saved_model_bytes(session);
  need.checkpoint_bytes = model_bytes;
  if (!args.save_only_model) {
    // Of as many ranks as have a part of them, or each its own.
    const RankOptions& ranks = session.options().step.ranks;
    int64_t parts = 1;
    if (session.family().shards_what_is_trained()) parts = ranks.group_size();
    if (ranks.local_steps() > 0) parts = ranks.world_size;
    for (const Storage& storage : session.state().storages()) {
      if (storage.role != Role::kOptimizerState) continue;
      const bool have_alike = storage.name.ends_with(kOuterMomentum);
      need.checkpoint_bytes += (have_alike ? 1 : parts) * storage.type.bytes();
    }
  }
  need.checkpoints = checkpoints_to_come(args, state);
  if (args.save_total_limit) {
    const int64_t best = args.metric_for_best_model.empty() ? 0 : 1;
    need.checkpoints = std::min(need.checkpoints, *args.save_total_limit + best + 1);
  }
  need.model_bytes = saves_model ? model_bytes : 0;
  return need;
}

int64_t free_disk_bytes(const std::filesystem::path& directory) {
  struct statvfs disk{};
  if (statvfs(directory.c_str(), &disk) != 0)
    throw_system_error(directory, "find out how much of its disk is free", errno);
  return static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize);
}

int64_t bytes_in(const std::filesystem::path& directory) {
  int64_t bytes = 0;
  std::error_code gone;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory, gone)) {
    if (entry.is_regular_file(gone)) bytes += static_cast<int64_t>(entry.file_size(gone));
  }
  return bytes;
}

void check_disk_space(const DiskNeed& need, const std::filesystem::path& directory, int64_t free_bytes,
                      const std::function<void(const std::string& line)>& on_line) {
  DiskNeed least = need;
  least.checkpoints = std::min<int64_t>(1, need.checkpoints);
  if (least.bytes() > free_bytes) {
    const char* what = need.checkpoints == 0   ? "the trained model"
                       : need.model_bytes == 0 ? "a checkpoint"
                                               : "a checkpoint and the trained model";
    throw user_error(
        "[--output_dir {}] expected {} free on its disk for {}, got {}; make room, or take another directory",
        directory.string(), format_bytes(least.bytes()), what, format_bytes(free_bytes));
  }
  if (need.bytes() <= free_bytes || !on_line) return;
  const int64_t fitting = (free_bytes - need.model_bytes) / need.checkpoint_bytes;
  on_line(fmt::format(
      "{}: the disk has {} free, and {} checkpoints of {} are to come: {} fit; --save_total_limit keeps fewer",
      directory.string(), format_bytes(free_bytes), need.checkpoints, format_bytes(need.checkpoint_bytes),
      fitting));
}

}  // namespace shoehorn
