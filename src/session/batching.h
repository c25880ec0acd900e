// How the arguments divide a data set into batches and steps; checks that a data set fits a model.
#pragma once

#include <memory>

#include "arguments/training_arguments.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include "data/training_steps.h"
#include "data/window_iterator.h"
#include "model/model_builder.h"
#include "session/session.h"

namespace shoehorn {

// The length that every sequence is padded to; 0: sequences are packed.
int64_t padding_of(const TrainingArguments& args);

// `rank`: of the args.world_size ranks, the one whose micro-batches these are.
BatchOptions batch_options(const TrainingArguments& args, int32_t rank = 0);
SamplerOptions sampler_options(const TrainingArguments& args);
TrainingSteps steps_of(const TrainingArguments& args, int64_t samples);

// The effective batches of a run. `dataset` must outlive the iterator.
std::unique_ptr<WindowIterator> make_windows(const TrainingArguments& args, const Dataset& dataset,
                                             int32_t rank = 0);
// What they need, without making them.
WindowNeeds window_needs_of(const TrainingArguments& args, const Dataset& dataset, int32_t rank = 0);
// What they need of a session: programs for any micro-batch, and room for those that are packed ahead.
void make_room_for(const WindowNeeds& windows, const TrainingArguments& args, SessionOptions& options);

// UserError naming `which` data ("training", "evaluation") if a sample is longer than the model's positions,
// a token is not in its vocabulary, a label does not fit its task, or training samples have no labels.
void check_data(const Model& model, const Dataset& dataset, const char* which);

// UserError naming `which` where samples have tokens for a decoder and no program of the batch reads them.
void check_columns_are_read(const Dataset& dataset, const BatchInputs& batch, const char* which);

}  // namespace shoehorn
