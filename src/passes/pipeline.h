// The pass list, and the pipeline that turns a model into the programs of a run.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "passes/program_family.h"

namespace shoehorn {

// What a pass does to loss and gradients: no bit changes; sums round differently; other maths.
enum class Exactness : uint8_t { kExact, kRoundingOnly, kChangesNumerics };

std::string_view exactness_name(Exactness exactness);  // "exact", "rounding only", "changes numerics"

struct Pass {
  std::string name;
  Exactness exactness;
  bool can_skip;  // with --skip_pass; the others are needed
  void (*run)(ProgramFamily&, const StepOptions&);
  std::string group = {};  // --skip_pass with this name skips all passes of the group
};

// All passes, in the order in which they run.
const std::vector<Pass>& pass_list();

// True if the options skip the pass, by its own name or by its group's.
bool is_skipped(const Pass& pass, const StepOptions& options);

struct PassRecord {
  std::string name;
  double seconds;
  int64_t nodes;  // in the first program, after the pass
};

enum class RunKind : uint8_t { kTrain, kEvaluate };

// Captures `model` and runs the pass list over it: each pass is timed, verified, dumped where asked and can
// be skipped, and its nodes get its name (Node::pass). There are programs for each bucket. A training run has
// evaluation programs only where `evaluation` has buckets; an evaluation run has nothing else. Throws UserError for
// settings that do not go together (naming the flags).
ProgramFamily build_programs(const Model& model, RunKind kind, const BatchBuckets& train,
                             const BatchBuckets& evaluation, const StepOptions& options,
                             std::vector<PassRecord>* records = nullptr);

// When programs are verified (ops/verify.h): behind each pass, so that an error names it, or behind the last.
enum class Verification : uint8_t { kEachPass, kOnce };

// The same in two parts. Between them the backward is there, and nothing is recomputed yet: begin_programs ends before the
// pass `recompute`, and finish_programs begins with it.
ProgramFamily begin_programs(const Model& model, RunKind kind, const BatchBuckets& train,
                             const BatchBuckets& evaluation, const StepOptions& options,
                             std::vector<PassRecord>* records = nullptr,
                             Verification verification = Verification::kEachPass);
void finish_programs(ProgramFamily& family, const StepOptions& options,
                     std::vector<PassRecord>* records = nullptr,
                     Verification verification = Verification::kEachPass);
// Without verification, records and dumps: to look at what becomes of other options.
void finish_programs_unchecked(ProgramFamily& family, const StepOptions& options);

}  // namespace shoehorn
