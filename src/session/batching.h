// How the arguments cut a data set into batches and steps, and whether a data set goes with a model.
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

// Tokens that every sequence is padded to; 0: none, they are packed.
int64_t padding_of(const TrainingArguments& args);

BatchOptions batch_options(const TrainingArguments& args);
SamplerOptions sampler_options(const TrainingArguments& args);
TrainingSteps steps_of(const TrainingArguments& args, int64_t samples);

// The effective batches of a run. `dataset` outlives the iterator.
std::unique_ptr<WindowIterator> make_windows(const TrainingArguments& args, const Dataset& dataset);
// What they need of a session: programs for any micro-batch, and room for those that are packed ahead.
void make_room_for(const WindowIterator& windows, const TrainingArguments& args, SessionOptions& options);

// UserError naming `which` ("training", "evaluation") where samples are longer than the model's positions, a
// token is beyond its vocabulary, a label is none of its task's, or samples for training have none.
void check_data(const Model& model, const Dataset& dataset, const char* which);

// UserError naming `which` where samples have tokens for a decoder and no program of the batch reads them.
void check_columns_are_read(const Dataset& dataset, const BatchInputs& batch, const char* which);

}  // namespace shoehorn
