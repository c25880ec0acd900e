// What the readers of arguments share.
#pragma once

#include "arguments/training_arguments.h"

namespace shoehorn::fuzz {

// `arguments` are resolved and valid. Computes what a run derives from them first, and checks that they are
// the same once written as training_args.json and read again, and hold no number that is not finite.
void check_arguments(const TrainingArguments& arguments);

}  // namespace shoehorn::fuzz
