// The programs of a run. They share one table of persistent storages.
//
//   one micro-batch a step, or layer-major   kTrainStep
//   micro-batch-major accumulation           kMicroBatchFirst, kMicroBatchNext, kUpdate
//   evaluation and prediction                kEvaluate
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "autodiff/backward.h"
#include "graph/program.h"
#include "model/model_builder.h"
#include "passes/step_options.h"

namespace shoehorn {

// The storages that float16 training keeps between steps; invalid in other runs. The host writes their first
// values.
struct LossScaleStorages {
  StorageId scale;            // f32[1]
  StorageId applied_in_row;   // i32[1] applied steps since the scale last changed
  StorageId overflows_to_go;  // i32[1] overflows left until the scale shrinks
  // i32[1]: 1 if the last step's update was skipped, else 0; invalid under update_in_backward
  StorageId found_inf;
};

// The adapters that the pass `lora` added: y = x·Wᵀ + (scale·x·Aᵀ)·Bᵀ.
struct LowRankAdapter {
  ParameterId weight, a, b;
};
struct AdapterSet {
  std::vector<LowRankAdapter> list;  // empty: no adapters
  std::vector<ParameterId> saved;    // trained and saved whole, beside the adapters
  float scale = 1;
  // The names that selected them, for PEFT's adapter_config.json.
  std::vector<std::string> target_modules, modules_to_save;
  // The model's defaults, for options without names.
  std::vector<std::string> default_targets, default_modules_to_save;

  bool empty() const { return list.empty(); }
};

struct ProgramFamily {
  std::unique_ptr<StateTable> state = std::make_unique<StateTable>();
  ScalarStorages scalars;
  std::vector<BatchInputs> train_batches;  // one, or one a micro-batch where a program holds several
  BatchInputs evaluation_batch;
  StorageId loss;       // f32[1], role scalar: the step's loss, summed over micro-batches
  StorageId grad_norm;  // f32[1], of the unscaled gradients; invalid without clipping
  LossScaleStorages loss_scale;
  AdapterSet adapters;
  std::vector<Program> programs;

  // Between passes: the gradients that the backward makes.
  std::vector<ParameterGradient> gradients;

  // The program for this; an invalid id where there is none.
  ProgramId find(ProgramKind kind) const {
    for (size_t i = 0; i < programs.size(); ++i) {
      if (programs[i].kind() == kind) return {static_cast<int32_t>(i)};
    }
    return {};
  }
  BatchInputs& batch_of(const Program& program) {
    return program.traits().trains ? train_batches[0] : evaluation_batch;
  }
  const Program& program(ProgramId id) const { return programs[id.at()]; }
  Program& program(ProgramId id) { return programs[id.at()]; }
};

}  // namespace shoehorn
