// Every flag that eval, predict or plan accepts is read by something.
#include "cli_read_flags.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

TEST_F(CliReadFlags, Eval) {
  expect_every_flag_is_read(
      Command::kEval,
      {"eval", "--model_name_or_path", model(), "--validation_file", path("labelled.csv"), "--output_dir",
       output(), "--dump_program", path("dump"), "--json"},
      {{"detect_anomaly", "there is no anomaly; CliFlags.AnomalyOfAnEvaluationIsNamed has one"},
       {"debug", "another name of detect_anomaly"},
       {"log_level", "there is no notice; CliFlags.NoticesAreHiddenByLogLevel has one"},
       kNoCache,
       kNobodyToWaitFor,
       kNobodyToShareProcessorsWith,
       kNoReplicaSpeaks,
       kSameTask});
}

TEST_F(CliReadFlags, Predict) {
  expect_every_flag_is_read(
      Command::kPredict,
      {"predict", "--model_name_or_path", model(), "--test_file", path("labelled.csv"), "--output_dir",
       output(), "--dump_program", path("dump"), "--json"},
      {{"detect_anomaly", "there is no anomaly; CliFlags.AnomalyOfAnEvaluationIsNamed has one"},
       {"debug", "another name of detect_anomaly"},
       {"log_level", "there is no notice; CliFlags.NoticesAreHiddenByLogLevel has one"},
       kNobodyToWaitFor,
       kNobodyToShareProcessorsWith,
       kNoReplicaSpeaks,
       kSameTask});
}

TEST_F(CliReadFlags, Plan) {
  expect_every_flag_is_read(
      Command::kPlan,
      {"plan", "--model_name_or_path", model(), "--train_file", path("labelled.csv"), "--validation_file",
       path("labelled.csv"), "--per_device_train_batch_size=2", "--gradient_accumulation_steps=2",
       "--dump_program", path("dump"), "--json", "--dataloader_num_workers=1"},
      {{"auto_find_batch_size", "the batch fits; AutoFindBatchSize has its tests"},
       {"profile", "its bytes are among those that are measured of the process"},
       kNoCache,
       kNotSplit,
       kOneBucket,
       kNothingToShard,
       kNothingToPrefetch,
       kNothingToKeepWhole,
       kNoGroups,
       kNoOtherHost,
       kNoReplicas,
       kNobodyToAverageWith,
       kNoAverageToReach,
       kNoMomentumOfAverages,
       kSameTask});
}

}  // namespace
}  // namespace shoehorn
