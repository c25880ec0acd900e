// Where the bytes of a run are: by what they are for, as the training guides list it, by the part of the
// model, and along the step.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "session/memory_forecast.h"
#include "session/session.h"

namespace shoehorn {

struct NamedBytes {
  std::string name;
  int64_t bytes = 0;
};

// What the step's program does in one direction through one layer.
struct StepMoment {
  std::string name;  // "backward, layer 3"; what is made again for it is in it
  int64_t first_node = 0;
  int64_t live_bytes = 0;  // of the transient arena, the most while it lasts
};

struct MemoryAnatomy {
  int64_t parameters = 0;
  // Weights, optimizer, gradients, activations kept for the backward, temporaries, workspace, inputs and
  // scalars, slack between buffers, the process besides: in this order, those that are there. They add up to
  // the predicted peak of the process.
  std::vector<NamedBytes> parts;
  std::vector<NamedBytes> components;  // of the arenas, layer by layer, largest first
  // The same over all layers, then slack and the process besides: they add up to the predicted peak too.
  std::vector<NamedBytes> components_of_all_layers;
  std::string program;  // the one that needs most
  std::vector<StepMoment> timeline;
  std::string peak_node;                  // the node at the peak
  std::vector<NamedBytes> alive_at_peak;  // "activation of attention", …, largest first
  int64_t total_bytes = 0;
  int64_t measured_bytes = 0;  // peak of the process, once it has run; 0: it has not

  // What the process took beyond the account of it; below 0: less than that.
  int64_t unexplained_bytes() const { return measured_bytes - total_bytes; }
};

// "-1.50 MiB (-0.12 %)": the unexplained bytes and their share of the measured peak.
std::string format_unexplained(const MemoryAnatomy& anatomy);

MemoryAnatomy memory_anatomy(const Session& session, const MemoryForecast& forecast);

// Tables by part and by component, against the measured peak where there is one, and the step's memory as
// bars.
std::string format_memory_anatomy(const MemoryAnatomy& anatomy);
nlohmann::json to_json(const MemoryAnatomy& anatomy);

}  // namespace shoehorn
