// Every flag that train, anatomy, bench step or bench batch accepts is read by something.
#include "cli_read_flags.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

// A loss scale that the first steps overflow.
const std::vector<std::string> kOverflows = {"--fp16", "--initial_scale_power=21"};
const std::vector<std::string> kScaledRate = {"--scale_learning_rate=linear", "--reference_batch_size=8"};

// What no run here has.
const Reasons kNotMet = {{"auto_find_batch_size", "the batch fits; AutoFindBatchSize has its tests"},
                         {"detect_anomaly", "there is no anomaly; CliErrors.AnomalyIsNamed has one"},
                         {"debug", "another name of detect_anomaly"}};

Reasons with(Reasons reasons, const Reasons& more) {
  reasons.insert(more.begin(), more.end());
  return reasons;
}

TEST_F(CliReadFlags, Train) {
  expect_every_flag_is_read(
      Command::kTrain,
      {"train",
       "--model_name_or_path",
       model(),
       "--train_file",
       path("labelled.csv"),
       "--validation_file",
       path("labelled.csv"),
       "--output_dir",
       output(),
       "--dump_program",
       path("dump"),
       "--json",
       "--per_device_train_batch_size=2",
       "--gradient_accumulation_steps=2",
       "--num_train_epochs=1",
       "--dataloader_num_workers=1",
       "--eval_strategy=steps",
       "--eval_steps=1",
       "--save_steps=2",
       "--logging_steps=2",
       "--report_to=html"},
      with(kNotMet,
           {{"allow_resume_changes", "nothing is resumed; ResumeChanged has its tests"},
            {"dataloader_pin_memory", "the arena has the same size; the command plan says whose it is"},
            {"disable_tqdm", "there is no terminal"},
            {"lock_memory", "the outcome is the same; HostArenaTest and PlannedRunTest have its tests"},
            {"log_level", "there is no notice; CliFlags.NoticesAreHiddenByLogLevel has one"},
            kNoCache,
            kNotSplit,
            kOneBucket,
            kNothingToShard,
            kNothingToPrefetch,
            kNothingToKeepWhole,
            kNoGroups,
            kNoOtherHost,
            kNoReplicaSpeaks,
            kNoReplicas,
            kNobodyToAverageWith,
            kNoAverageToReach,
            kNoMomentumOfAverages,
            kNobodyToShareProcessorsWith,
            kSameTask,
            {"ignore_mismatched_sizes", "the labels are the model's; CliHeadSize has others"},
            kNobodyToWaitFor,
            {"dataset_name", "its files are given; CliGuides.RunClm has it alone"},
            {"dataset_config_name", "its files are given; CliGuides.RunClm has it alone"},
            {"enable_jit_checkpoint", "no signal comes; CliSignals has some"},
            {"overwrite_output_dir",
             "there are no checkpoints of an earlier run; CliFlags.CheckpointsOfAnEarlierRun has some"}}),
      {{"dataloader_drop_last", {"--per_device_train_batch_size=3"}},
       {"do_eval", {"--eval_strategy=no"}},
       {"greater_is_better", {"--metric_for_best_model=loss"}},
       {"logging_dir", {"--report_to=tensorboard"}},
       {"loss_scale", {"--fp16"}},
       {"initial_scale_power", {"--fp16"}},
       {"loss_scale_window", {"--fp16"}},
       {"hysteresis", kOverflows},
       {"min_loss_scale", kOverflows},
       {"reference_batch_size", kScaledRate}});
}

TEST_F(CliReadFlags, Anatomy) {
  expect_every_flag_is_read(
      Command::kAnatomy,
      {"anatomy", "--model_name_or_path", model(), "--max_seq_length=8", "--no_limits",
       "--per_device_train_batch_size=2", "--gradient_accumulation_steps=2", "--dataloader_num_workers=1",
       "--steps=3", "--dump_program", path("dump"), "--json"},
      {{"auto_find_batch_size", "the batch fits; AutoFindBatchSize has its tests"},
       {"dataloader_pin_memory", "the arena has the same size; the command plan says whose it is"},
       kOneBucket,
       kNothingToShard,
       kNothingToPrefetch,
       kNothingToKeepWhole,
       kNoGroups,
       kNoOtherHost,
       kNoReplicas,
       kNobodyToAverageWith,
       kNoAverageToReach,
       kNoMomentumOfAverages},
      {{"bf16_full_eval", {"--inference"}}, {"fp16_full_eval", {"--inference"}}, {"loss_scale", {"--fp16"}}});
}

TEST_F(CliReadFlags, BenchStep) {
  expect_every_flag_is_read(
      Command::kBenchStep,
      {"bench", "step", "--model_name_or_path", model(), "--max_seq_length=8", "--no_limits", "--output_dir",
       output(), "--per_device_train_batch_size=2", "--gradient_accumulation_steps=2", "--max_steps=6",
       "--dataloader_num_workers=1", "--dump_program", path("dump"), "--json"},
      with(kNotMet,
           {kSameTask,
            {"dataloader_pin_memory", "the arena has the same size; the command plan says whose it is"},
            kOneBucket,
            kNothingToShard,
            kNothingToPrefetch,
            kNothingToKeepWhole,
            kNoGroups,
            kNoOtherHost,
            kNoReplicaSpeaks,
            kNoReplicas,
            kNobodyToAverageWith,
            kNoAverageToReach,
            kNoMomentumOfAverages,
            kNobodyToShareProcessorsWith,
            kNobodyToWaitFor}),
      {{"loss_scale", {"--fp16"}},
       {"loss_scale_window", kOverflows},
       {"output_dir", {"--profile=2"}},
       {"hysteresis", kOverflows},
       {"min_loss_scale", kOverflows},
       {"reference_batch_size", kScaledRate}});
}

TEST_F(CliReadFlags, BenchBatch) {
  const std::string only_measured = "it changes times and bytes that are measured";
  expect_every_flag_is_read(
      Command::kBenchBatch,
      {"bench", "batch", "--model_name_or_path", model(), "--output_dir", output(), "--max_seq_length=8",
       "--max=1", "--steps=2", "--repeats=1", "--gradient_accumulation_steps=2", "--dataloader_num_workers=1",
       "--dump_program", path("dump"), "--json"},
      with(kNotMet, {{"dataloader_num_workers", only_measured},
                     {"dataloader_pin_memory", only_measured},
                     {"dataloader_prefetch_factor", only_measured},
                     {"gradient_accumulation_steps", only_measured}}),
      {{"loss_scale", {"--fp16"}}, {"output_dir", {"--profile=1"}}});
}

}  // namespace
}  // namespace shoehorn
