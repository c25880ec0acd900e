// Where the bytes of a run go: by purpose (as the training guides list it), by part of the model, and along
// the step.
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

// The part of the step's program that belongs to one layer and direction.
struct StepMoment {
  std::string name;  // "backward, layer 3"; includes its recompute
  int64_t first_node = 0;
  int64_t live_bytes = 0;  // its largest number of live bytes in the transient arena
};

struct MemoryAnatomy {
  int64_t parameters = 0;
  // Weights, optimizer, gradients, activations kept for the backward, temporaries, messages between ranks, workspace,
  // inputs and scalars, slack between buffers, and the process besides the arenas; in this order, without empty ones.
  // They add up to the predicted peak of the process.
  std::vector<NamedBytes> parts;
  std::vector<NamedBytes> components;  // of the arenas, per layer, largest first
  // The same summed over layers, plus slack and the process besides: these too add up to the predicted peak.
  std::vector<NamedBytes> components_of_all_layers;
  // What is resident at the peak, by role and component of all layers, "weight of attention": with slack and the process
  // besides they add up to the predicted peak, too. Largest first.
  std::vector<NamedBytes> residents;
  std::string program;    // the program that needs the most memory
  std::string run_phase;  // "train" or "evaluate": what the run does then
  std::vector<StepMoment> timeline;
  std::string peak_node;                  // the node at the peak
  std::vector<NamedBytes> alive_at_peak;  // "activation of attention", …, largest first
  int64_t total_bytes = 0;
  int64_t measured_bytes = 0;  // the process's peak, after a run; 0: not run

  // What the process took beyond the predicted total; negative if it took less.
  int64_t unexplained_bytes() const { return measured_bytes - total_bytes; }
};

// The unexplained bytes, "-1.50 MiB", and their share of the measured peak, "-0.12 %".
struct UnexplainedText {
  std::string bytes;
  std::string share;
};
UnexplainedText unexplained_text(const MemoryAnatomy& anatomy);

MemoryAnatomy memory_anatomy(const Session& session, const MemoryForecast& forecast);

// Tables by part and by component, compared with the measured peak if there is one; and the step's memory as
// bars.
std::string format_memory_anatomy(const MemoryAnatomy& anatomy);
nlohmann::json to_json(const MemoryAnatomy& anatomy);

}  // namespace shoehorn
