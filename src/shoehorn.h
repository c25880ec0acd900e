// The public API: define or load a model, load or make data, train.
//
//   #include "shoehorn.h"
//
// TrainingArguments, Trainer, Dataset, load_dataset, DataLoader and Accelerator have the names and defaults
// of the Hugging Face and PyTorch classes. from_pretrained and Tokenizer::load read a model's directory.
// Custom models derive from Model and are built with ModelBuilder. Errors: UserError for the caller's
// mistakes, SystemError if the environment failed. Stopped is thrown if a stop was requested (StopSignals). See
// examples/ and docs/how-to-add-a-model.md.
#pragma once

#include "arguments/training_arguments.h"
#include "base/error.h"
#include "base/stop_request.h"
#include "base/thread_waits.h"
#include "data/dataset.h"
#include "data/joined_source.h"
#include "data/load_dataset.h"
#include "generate/end_tokens.h"
#include "generate/text_generator.h"
#include "io/model_directory.h"
#include "model/layers.h"
#include "model/model_builder.h"
#include "models/bert.h"
#include "models/decoder_model.h"
#include "models/registry.h"
#include "predict/predict_file.h"
#include "tasks/causal_language_modeling.h"
#include "tasks/confusion_counts.h"
#include "tasks/multi_label_classification.h"
#include "tasks/multi_label_counts.h"
#include "tasks/regression.h"
#include "tasks/regression_errors.h"
#include "tasks/single_label_classification.h"
#include "tokenize/bpe_tokenizer_file.h"
#include "tokenize/bpe_trainer.h"
#include "tokenize/tokenizer.h"
#include "train/accelerator.h"
#include "train/data_loader.h"
#include "train/early_stopping.h"
#include "train/language_data.h"
#include "train/results.h"
#include "train/text_data.h"
#include "train/trainer.h"
#include "train/trainer_callback.h"
