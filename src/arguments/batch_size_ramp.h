// --batch_size_ramp: an effective batch that grows over training, by taking more micro-batches into each
// optimizer step.
//
//   --per_device_train_batch_size 4 --gradient_accumulation_steps 4 --batch_size_ramp 0:4,400:8,1200:16
//
// trains with a batch of 4 from the first sample on, of 8 once 400 samples are consumed, of 16 after 1200.
// The form is that of Megatron-LM's --step-batch-size-schedule (which replaced --rampup-batch-size), with
// thresholds in samples. The programs are those of the largest batch, as is the memory: a smaller batch calls
// them for fewer micro-batches, or with absent ones in layer-major order. Losses divide by the targets of the
// batch there is.
//
// The schedule of the learning rate runs over optimizer steps, which become fewer an epoch as the batch
// grows, and --scale_learning_rate scales once, by the largest batch: a ramp stands in for a part of the
// warm-up or of the decay, so nothing is scaled by the batch of a stage.
#pragma once

#include <vector>

#include "arguments/training_arguments.h"
#include "data/window_schedule.h"

namespace shoehorn {

// The stages; none without the flag. UserError for text that is no SAMPLES:BATCH, for stages that do not grow
// from 0 samples on, for a batch that is no multiple of per_device_train_batch_size, and where the last is
// not the effective batch.
std::vector<RampStage> batch_size_ramp_of(const TrainingArguments& args);

}  // namespace shoehorn
