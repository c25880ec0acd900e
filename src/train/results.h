// The output of a finished run: speed, result files, the table of metrics, the guides' print_summary.
// Functions return text or write the named file. Only the guides' two functions print, since that is their
// purpose: print_gpu_utilization here and print_summary (train/trainer.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <iostream>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "model/score.h"

namespace shoehorn {

class StepProfile;
struct MessageOverlap;

// What the first of several ranks sends in a step, as planned (Session::sent_bytes_in_step).
inline constexpr const char* kSentBytesMetric = "train_sent_bytes_in_step";
// Of --profile: the median of its steps; and of the slowest of several ranks, which share of the bytes that go around beside the
// computation was sent when the backward ended, was complete before that, and of the latter was hidden
// (analysis/message_overlap.h).
inline constexpr const char* kProfiledStepMetric = "train_profiled_step_seconds";
inline constexpr const char* kDoneShareMetric = "train_messages_done_share";
inline constexpr const char* kEarlyShareMetric = "train_messages_early_share";
inline constexpr const char* kHiddenShareMetric = "train_messages_hidden_share";

// `value` rounded to `digits` decimals as Python's round() does.
double round_to(double value, int digits);

// SPLIT_runtime (seconds, 4 decimals), SPLIT_samples_per_second and SPLIT_steps_per_second (3 decimals), as
// in transformers' speed_metrics. Without the rates if runtime is 0.
Metrics speed_metrics(const std::string& split, double runtime_seconds, int64_t samples, int64_t steps);

// What transformers' example scripts add to the Trainer's metrics: SPLIT_samples, the number of the data set's, and behind an
// evaluation of a language model `perplexity`, which is SPLIT_perplexity, under the name that run_clm gives it.
void add_script_metrics(Metrics& metrics, const std::string& split, int64_t samples);

// The median of the profiled steps, where there are any.
void add_profile_metrics(Metrics& metrics, const StepProfile& profile);
// Those of messages where there are any, and the last one where some could be hidden.
void add_overlap_metrics(Metrics& metrics, const MessageOverlap& overlap);

// "***** train metrics *****" and one aligned line per metric, sorted by name, as Trainer.log_metrics prints
// them: keys with _mem_ in MB (2^20), _runtime as h:mm:ss.cc, total_flos in GF (2^30), other floats with 4
// decimals.
std::string format_metrics(std::string_view split, const Metrics& metrics);

// An object by name, as in the result files.
nlohmann::json to_json(const Metrics& metrics);

// What details add to the results of a split, whose averages and classes' metrics are named as metrics are: the averages,
// SPLIT_classes {name: {precision, recall, f1, support}} and SPLIT_confusion_matrix {labels: [name], counts: [[number]]}
// with a row for each label and a column for each prediction.
nlohmann::json to_json(const ScoreDetails& details, const std::string& split);

// Writes output_dir/SPLIT_results.json. With `combined` it also updates output_dir/all_results.json, whose
// other entries stay, for which no other run may have the directory (io/directory_lock.h). The bytes are those of
// Trainer.save_metrics. UserError if all_results.json is malformed or another run has the directory; SystemError if a file cannot be written. Each file
// is replaced at once or not at all.
void save_metrics(const std::filesystem::path& output_dir, const std::string& split, const Metrics& metrics,
                  bool combined = true);
// The same of any object of results.
void save_results(const std::filesystem::path& output_dir, const std::string& split,
                  const nlohmann::json& results, bool combined = true);

// UserError if save_metrics would refuse output_dir/all_results.json. Call it before the work whose result goes there.
void check_combined_results(const std::filesystem::path& output_dir);

// The text that the guides' print_summary prints for a training result:
//
//   Time: 57.82
//   Samples/second: 8.86
//   GPU memory occupied: 14949 MB.
//
// The last line begins with `memory_of` ("GPU memory", "Memory") and counts MiB. UserError if `metrics` lacks
// train_runtime or train_samples_per_second.
std::string format_summary(const Metrics& metrics, int64_t memory_bytes,
                           std::string_view memory_of = "Memory");

// Prints only the last of these lines, for what this process holds now.
void print_gpu_utilization(std::ostream& out = std::cout);

}  // namespace shoehorn
