// What would end a training run in a later step, or behind its last one, found before the first: a metric that no
// evaluation has, files that cannot be written, a disk that is too small. The arguments' own rules are in validate().
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "arguments/training_arguments.h"
#include "data/dataset.h"
#include "model/task.h"
#include "ranks/communicator.h"
#include "session/session.h"
#include "state/trainer_state.h"

namespace shoehorn {

// UserError listing the metrics if evaluations of `task` have no metric_for_best_model, or have none at all because
// `evaluation` has no labels. Call it if no metrics of the program's own are added.
void check_metric_for_best_model(const TrainingArguments& args, const Task& task, const Dataset& evaluation);

// Opens the files of texts that the run will read, which takes a while until it comes to the last one. UserError and
// SystemError: those of find_data_files, data_format_of and open_input; standard input in more than one place.
void check_data_files(const TrainingArguments& args);

// UserError if something in `directory` that is not a regular file has one of the names; SystemError if a file cannot
// be created there.
void check_files_can_be_written(const std::filesystem::path& directory,
                                const std::vector<std::string>& names);

// UserError naming the ranks for which `directory` is another than for the first, as on hosts that do not share their files.
// All ranks call it; that of the first is there.
void check_directory_is_shared(const std::filesystem::path& directory, Communicator& ranks);

// What the files of a run take on its disk, to within the small ones.
struct DiskNeed {
  int64_t checkpoint_bytes = 0;  // each
  int64_t checkpoints = 0;       // at a time, the one that is being written included
  int64_t model_bytes = 0;       // that are saved after training

  int64_t bytes() const { return checkpoints * checkpoint_bytes + model_bytes; }
};

// Bytes of the model's weights, or of its adapters, as they are saved: at most.
int64_t saved_model_bytes(const Session& session);

// Of the run from `state` on. `saves_model`: save_model() follows.
DiskNeed disk_need_of(const TrainingArguments& args, const Session& session, const TrainerState& state,
                      bool saves_model);

// The bytes that are free for this user on the disk of a directory. SystemError if that cannot be found out.
int64_t free_disk_bytes(const std::filesystem::path& directory);

// The bytes of the files in a directory.
int64_t bytes_in(const std::filesystem::path& directory);

// UserError if not even one checkpoint and the model fit into `free_bytes`. If they do, but not all that the run will
// keep, `on_line` gets a line.
void check_disk_space(const DiskNeed& need, const std::filesystem::path& directory, int64_t free_bytes,
                      const std::function<void(const std::string& line)>& on_line);

}  // namespace shoehorn
