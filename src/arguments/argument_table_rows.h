// The parts of the table of flags, one file each, and what they share. Included only by the table's files.
#pragma once

#include <string_view>
#include <vector>

#include "arguments/argument_table.h"

namespace shoehorn::argument_rows {

using Args = TrainingArguments;
using enum ArgumentGroup;
using enum ArgumentKind;
using enum ArgumentStatus;
using enum ResumeRole;

// Reasons that several files give for a flag or a value that is not supported.
inline constexpr std::string_view kNotBuilt = "it is not built";
inline constexpr std::string_view kOtherDevice = "there is no TPU, NPU or XLA backend";
inline constexpr std::string_view kNoTracker =
    "nothing is sent to a service; tensorboard, html and jsonl are files";

inline constexpr std::string_view kNoHead =
    "heads for the next token and for sequences are built: one class, several, numbers";
inline constexpr std::string_view kNoMaskedModel = "no model of masked tokens is built";
inline constexpr std::string_view kNoEncoderDecoder = "no encoder with a decoder is built";

std::vector<ArgumentSpec> model_and_data();
std::vector<ArgumentSpec> tasks();
std::vector<ArgumentSpec> text_classification();
std::vector<ArgumentSpec> causal_language_modeling();
std::vector<ArgumentSpec> training();
std::vector<ArgumentSpec> optimizer_and_schedule();
std::vector<ArgumentSpec> running();
std::vector<ArgumentSpec> ranks();
std::vector<ArgumentSpec> not_built();
std::vector<ArgumentSpec> old_names();
std::vector<ArgumentSpec> other_trainers();

}  // namespace shoehorn::argument_rows
