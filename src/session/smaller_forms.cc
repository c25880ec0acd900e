#include "session/smaller_forms.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/process.h"
#include "base/rounding.h"

namespace shoehorn {

namespace {

// The code of other products is not made to be measured: the process may be short of memory. Of an encoder of
// 24 layers of 1024, that of bf16 makes the process's overhead a sixth larger with 1024 tokens, a third with
// 32768; this is half.
constexpr int64_t kShareOfOtherCode = 2;

// What planning freed does not count.
int64_t trimmed_resident_bytes() {
  malloc_trim(0);
  return process_resident_bytes();
}

// At most what a batch of so many sequences takes, of data of which `whole` are the longest.
BatchCapacity with_sequences(const BatchCapacity& whole, int64_t sequences) {
  const auto tokens_on = [&](BatchAxis axis) {
    // Padded sequences are longer than the longest of the data.
    const int64_t padded = ceil_divide(whole.of(axis), whole.sequences);
    const int64_t tokens = sequences * std::max(whole.longest(axis), padded);
    const int64_t rounded = round_up(tokens, kTokenMultiple);
    return std::min(rounded, whole.of(axis));
  };
  return {.tokens = tokens_on(BatchAxis::kTokens),
          .sequences = std::min(sequences, whole.sequences),
          .longest_sequence = whole.longest_sequence,
          .decoder_tokens = tokens_on(BatchAxis::kDecoderTokens),
          .longest_decoder_sequence = whole.longest_decoder_sequence};
}

bool can_be_run(const StepOptions& step) {
  if (step.gradient_accumulation_steps == 1) return true;
  // A gradient that is used at once must be complete.
  if (!is_by_layer(step)) return !step.update_in_backward;
  return step.gradient_accumulation_steps <= kMaxUnrolledMicroBatches;
}

}  // namespace

std::vector<int64_t> divisors_of(int64_t number) {
  std::vector<int64_t> divisors;
  for (int64_t small = 1; small <= number / small; ++small) {
    if (number % small != 0) continue;
    divisors.push_back(small);
    if (small != number / small) divisors.push_back(number / small);
  }
  std::sort(divisors.rbegin(), divisors.rend());
  return divisors;
}

std::string recompute_flags(const StepOptions& step) {
  if (step.recompute_every_n_layers == 1 || step.activation_budget || !step.recompute_set.empty()) return "";
  return step.recompute_every_n_layers == 0 ? "--gradient_checkpointing"
                                            : "--gradient_checkpointing_kwargs every_n_layers=1";
}

bool is_by_layer(const StepOptions& step) {
  return step.accumulation_order == AccumulationOrder::kLayer;
}

std::string Candidate::all_flags() const {
  const std::string all = flags + evaluation_flag;
  return all.substr(std::min(all.size(), all.find_first_not_of(' ')));
}

Planner::Planner(const Model& model, const MemoryForecast& forecast)
    : model_(model), forecast_(forecast), resident_before_bytes_(trimmed_resident_bytes()) {}

std::unique_ptr<Session> Planner::plan_that_fits(Candidate& candidate) {
  while (true) {
    std::unique_ptr<Session> session = plan(candidate);
    if (session == nullptr || peak_of(candidate, *session) <= forecast_.budget_bytes) return session;
    const int64_t sequences = candidate.options.evaluation.sequences / 2;
    if (session->family().program(session->plan().largest()).kind() != ProgramKind::kEvaluate ||
        sequences == 0)
      return nullptr;
    candidate.options.evaluation = with_sequences(candidate.options.evaluation, sequences);
    candidate.options.smaller_evaluation.clear();  // their programs need no more than the largest's
    candidate.evaluation_flag = fmt::format(" --per_device_eval_batch_size {}", sequences);
  }
}

bool Planner::offer(Candidate candidate) {
  const std::unique_ptr<Session> session = plan_that_fits(candidate);
  if (session == nullptr) return false;
  const int64_t held = std::max<int64_t>(0, trimmed_resident_bytes() - resident_before_bytes_);
  const int64_t peak = peak_of(candidate, *session) + held;
  if (peak > forecast_.budget_bytes) return false;
  fitting_.push_back({candidate.all_flags(), peak, candidate.change});
  return true;
}

bool Planner::is_hopeless(const Candidate& candidate) {
  const std::unique_ptr<Session> session = plan(candidate);
  if (session == nullptr) return true;
  int64_t least = forecast_.process_overhead_bytes;
  for (const AddressSpace space : kEveryAddressSpace) least += session->plan().spaces[space].persistent_bytes;
  if (!candidate.options.step.update_in_backward)
    least += session->trainable_parameter_count() * static_cast<int64_t>(sizeof(float));
  return least > forecast_.budget_bytes;
}

int64_t Planner::least_bytes() const {
  return least_ ? least_->process_peak_bytes : std::numeric_limits<int64_t>::max();
}

Alternatives Planner::result(std::vector<std::string> tried) && {
  std::stable_sort(fitting_.begin(), fitting_.end(),
                   [](const Alternative& a, const Alternative& b) { return a.change < b.change; });
  return {std::move(fitting_), std::move(tried), std::move(least_)};
}

// Nothing where the model cannot be trained so, as where no layer takes an adapter.
std::unique_ptr<Session> Planner::plan(const Candidate& candidate) {
  std::unique_ptr<Session> session;
  try {
    session = std::make_unique<Session>(model_, candidate.options);
  } catch (const UserError&) {
    return nullptr;
  }
  if (const int64_t peak = peak_of(candidate, *session); peak < least_bytes())
    least_ = {candidate.all_flags(), peak, candidate.change};
  return session;
}

int64_t Planner::peak_of(const Candidate& candidate, const Session& session) const {
  const int64_t code =
      candidate.has_other_products ? forecast_.process_overhead_bytes / kShareOfOtherCode : 0;
  return session.plan().arena_bytes() + forecast_.process_overhead_bytes + code;
}

MicroBatchSearch::MicroBatchSearch(Planner& planner, Candidate base, int64_t micro_batch_size)
    : planner_(planner), base_(std::move(base)), micro_batch_size_(micro_batch_size) {
  for (const int64_t size : divisors_of(micro_batch_size)) {
    if (!rungs(size).empty()) sizes_.push_back(size);
  }
}

bool MicroBatchSearch::climb() {
  if (sizes_.empty() || planner_.is_hopeless(rungs(sizes_[0]).front())) return false;
  if (offer_at(0)) return true;
  // Fewer sequences take less, so that the largest size that fits is found by halves.
  size_t too_large = 0;
  size_t fits = sizes_.size() - 1;
  if (fits == 0 || !may_fit_at(fits)) return false;
  while (fits - too_large > 1) {
    const size_t middle = (too_large + fits) / 2;
    (may_fit_at(middle) ? fits : too_large) = middle;
  }
  while (fits < sizes_.size()) {
    if (offer_at(fits++)) return true;
  }
  return false;
}

void MicroBatchSearch::plan_smallest() {
  if (!sizes_.empty()) may_fit_at(sizes_.size() - 1);
}

// Least change first.
std::vector<Candidate> MicroBatchSearch::rungs(int64_t size) const {
  Candidate split = base_;
  StepOptions& step = split.options.step;
  if (size != micro_batch_size_) {
    split.options.train = with_sequences(base_.options.train, size);
    split.options.smaller_train.clear();  // as of evaluation above
    step.gradient_accumulation_steps *= micro_batch_size_ / size;
    split.flags += fmt::format(" --per_device_train_batch_size {} --gradient_accumulation_steps {}", size,
                               step.gradient_accumulation_steps);
    split.change = std::max(split.change, MathsChange::kRounding);
  }
  std::vector<Candidate> all = {split};
  const std::string recompute = recompute_flags(step);
  if (!recompute.empty()) {
    step.recompute_every_n_layers = 1;
    split.flags += " " + recompute;
    all.push_back(split);
  }
  if (step.gradient_accumulation_steps > 1 && !is_by_layer(step)) {
    step.accumulation_order = AccumulationOrder::kLayer;
    split.flags += " --accumulation_order layer_major";
    all.push_back(split);
  }
  std::erase_if(all, [](const Candidate& one) { return !can_be_run(one.options.step); });
  return all;
}

// Of the rungs of a size those that recompute take least.
bool MicroBatchSearch::may_fit_at(size_t index) {
  std::vector<Candidate> all = rungs(sizes_[index]);
  return std::any_of(all.begin(), all.end(), [&](Candidate& one) {
    return recompute_flags(one.options.step).empty() && planner_.plan_that_fits(one) != nullptr;
  });
}

bool MicroBatchSearch::offer_at(size_t index) {
  const std::vector<Candidate> all = rungs(sizes_[index]);
  return std::any_of(all.begin(), all.end(), [&](const Candidate& one) { return planner_.offer(one); });
}

}  // namespace shoehorn
