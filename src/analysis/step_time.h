// How long a step of a planned run takes: a lower bound from the machine's rates or, on a machine that is calibrated, the
// sum of what its nodes cost there.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

#include "analysis/message_time.h"
#include "analysis/op_costs.h"
#include "data/dataset.h"
#include "plan/device_catalog.h"
#include "session/session.h"

namespace shoehorn {

// The lengths of samples that fill the batches: packed batches of them take, on average, what one of samples with these
// means takes, since only attention's work grows with the square of a length.
struct SampleLengths {
  double mean = 0;         // tokens of a sample
  double mean_square = 0;  // a sample's sum of the squares of its sequences, which are its documents
  int64_t samples = 0;     // of a micro-batch
  // Attention's length: each token sees, on average, the sequence of such a length.
  double attended() const { return mean > 0 ? mean_square / mean : 0; }
};

// Of a data set that is not empty, in micro-batches of so many samples.
SampleLengths sample_lengths(const Dataset& dataset, int64_t micro_batch_samples);

struct StepTime {
  double seconds = 0;
  double error = 0;            // standard deviation, as a share; 0 for a lower bound
  bool is_calibrated = false;  // else a lower bound
  // The share of the seconds in kinds of operations that the calibration did not time.
  double unmeasured_share = 0;
  // Of several ranks: what their messages take, if the link is known. The seconds are then those of the step with them;
  // else of what a rank computes, and `lacks_messages`.
  std::optional<MessageTime> messages = {};
  bool lacks_messages = false;
  std::optional<StepTraffic> sent = {};  // of several ranks
};

// Of ranks that are linked by `link`; null: nobody knows how, or there is one rank. With lengths, and batches that are not
// padded, of a step whose micro-batches are full of such samples; else with every count at its maximum.

// Each node's arithmetic at the machine's rate of products or its bytes at the memory's, whichever takes longer.
StepTime least_step_time(const Session& session, const MachineLimits& limits,
                         const std::optional<SampleLengths>& lengths = {}, const RankLink* link = nullptr);

// The same by the peaks and the bandwidth of a data sheet.
StepTime rated_step_time(const Session& session, const Device& device,
                         const std::optional<SampleLengths>& lengths = {}, const RankLink* link = nullptr);

// Calibrated.
StepTime calibrated_step_time(const Session& session, const OpCosts& costs,
                              const std::optional<SampleLengths>& lengths = {},
                              const RankLink* link = nullptr);

// " ± 4 %", of a calibrated time.
std::string error_text(const StepTime& time);
// "0.123 s ± 4 %", or "no less than 0.123 s by the machine's rates (not calibrated)"; of several ranks with what their
// messages are of it, or that they are not in it.
std::string format_step_time(const StepTime& time);
// {"step_seconds", "step_seconds_are": "calibrated" or "lower bound", "step_seconds_error", "unmeasured_share", "messages"}; the
// error and the share of a calibrated one, messages (null: not in it) of several ranks.
nlohmann::json to_json(const StepTime& time);

}  // namespace shoehorn
