// --batch_size_ramp: an effective batch that grows over training, by more and more micro-batches per
// optimizer step.
//
//   --per_device_train_batch_size 4 --gradient_accumulation_steps 4 --batch_size_ramp 0:4,400:8,1200:16
//
// trains with a batch of 4 from the first sample on, of 8 once 400 samples are consumed, and of 16 after
// 1200. The syntax is that of Megatron-LM's --step-batch-size-schedule (which replaced --rampup-batch-size),
// with thresholds in samples. Programs and memory are those of the largest batch. A smaller batch calls them
// for fewer micro-batches, or with absent ones in layer-major order. Losses are divided by the targets of the
// actual batch.
//
// The learning-rate schedule runs over optimizer steps, whose number per epoch falls as the batch grows.
// --scale_learning_rate scales once, by the largest batch. A ramp replaces a part of the warm-up or of the
// decay, so the learning rate is not scaled by the batch of a stage.
#pragma once

#include <vector>

#include "arguments/training_arguments.h"
#include "data/window_schedule.h"

namespace shoehorn {

// The stages; empty without the flag. UserError if the text is not SAMPLES:BATCH,…; if the stages do not
// begin at 0 samples or do not grow; if a batch is no multiple of per_device_train_batch_size; or if the last
// is not the effective batch.
std::vector<RampStage> batch_size_ramp_of(const TrainingArguments& args);

}  // namespace shoehorn
