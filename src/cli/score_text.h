// What an evaluation says of classes, as text for a terminal.
#pragma once

#include <cstddef>
#include <string>

#include "model/score.h"
#include "train/trainer.h"

namespace shoehorn {

struct ScoreTextOptions {
  size_t width = 80;  // characters of a line
  bool bold = false;  // the confusion matrix's diagonal, with escape sequences
};

// The options for standard output: COLUMNS or the terminal's width; bold on a terminal without NO_COLOR.
ScoreTextOptions score_text_options();

// A table with a row for each class, and the confusion matrix if its columns fit into a line. Empty for details without
// classes.
std::string format_details(const ScoreDetails& details, const ScoreTextOptions& options);

// The line of a run whose classes have weights.
std::string shown_class_weights(const Trainer& trainer);

}  // namespace shoehorn
