#include "lab/quality.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/child_process.h"
#include "base/error.h"
#include "exec/backends.h"

namespace shoehorn {

namespace {

std::string line_of(const QualityRung& rung, const TrainingRun& run) {
  const std::string head = fmt::format("{}, seed {}: ", rung.setting, run.seed);
  if (!run.is_measured()) return head + outcome_text(run.outcome);
  return head + fmt::format("accuracy {:.4f}, loss {:.4f}, {:.1f} s, {} MiB", run.eval_accuracy,
                            run.eval_loss, run.train_seconds, run.measured_bytes >> 20);
}

int64_t runs_of(const QualityOptions& options, const QualityRung& rung) {
  return rung.name == "reference" ? options.seeds : std::min(options.seeds, options.rung_seeds);
}

// Equal NaNs are equal.
bool is_same(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

QualityResults with_runs(QualityResults results) {
  std::erase_if(results.rungs, [](const QualityResult& rung) { return rung.runs.empty(); });
  return results;
}

double relative_difference(double a, double b) {
  if (is_same(a, b)) return 0;
  const double difference = std::abs(a - b) / std::abs(b);
  return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

}  // namespace

const TrainingRun* QualityResult::unmeasured() const {
  const auto found =
      std::find_if(runs.begin(), runs.end(), [](const TrainingRun& run) { return !run.is_measured(); });
  return found == runs.end() ? nullptr : &*found;
}

Spread QualityResult::of(double TrainingRun::* figure) const {
  std::vector<double> values;
  for (const TrainingRun& run : runs) values.push_back(run.*figure);
  return spread_of(std::move(values));
}

double QualityResult::median_bytes(int64_t TrainingRun::* figure) const {
  std::vector<double> values;
  for (const TrainingRun& run : runs) values.push_back(static_cast<double>(run.*figure));
  return spread_of(std::move(values)).median;
}

const QualityResult& QualityResults::named(const std::string& name) const {
  const auto found = std::find_if(rungs.begin(), rungs.end(),
                                  [&name](const QualityResult& rung) { return rung.rung.name == name; });
  CHECK(found != rungs.end(), "no rung is named {}", name);
  return *found;
}

std::optional<Agreement> agreement_of(const QualityResults& results, const QualityResult& rung) {
  if (rung.rung.promise == Promise::kNothing) return std::nullopt;
  const QualityResult& other = results.named(rung.rung.equals);
  if (!rung.is_measured() || !other.is_measured()) return std::nullopt;
  Agreement agreement{.is_every_bit = true};
  for (size_t r = 0; r < std::min(rung.runs.size(), other.runs.size()); ++r) {
    const TrainingRun& a = rung.runs[r];
    const TrainingRun& b = other.runs[r];
    const bool same_losses = std::equal(a.step_losses.begin(), a.step_losses.end(), b.step_losses.begin(),
                                        b.step_losses.end(), is_same);
    agreement.is_every_bit = agreement.is_every_bit && same_losses && is_same(a.eval_loss, b.eval_loss) &&
                             a.eval_accuracy == b.eval_accuracy;
    const size_t steps = std::min({kFirstSteps, a.step_losses.size(), b.step_losses.size()});
    for (size_t s = 0; s < steps; ++s) {
      agreement.first_steps =
          std::max(agreement.first_steps, relative_difference(a.step_losses[s], b.step_losses[s]));
    }
  }
  const bool is_near = rung.rung.promise == Promise::kRounding && agreement.first_steps < kRoundingOfLosses;
  agreement.is_kept = agreement.is_every_bit || is_near;
  return agreement;
}

bool loses_accuracy(const QualityResults& results, const QualityResult& rung) {
  if (&rung == &results.reference()) return false;
  const Spread accuracy = rung.of(&TrainingRun::eval_accuracy);
  const Spread reference = results.reference().of(&TrainingRun::eval_accuracy);
  return have_spread(accuracy, reference) && loses(accuracy, reference);
}

std::string verdict_of(const QualityResults& results, const QualityResult& rung) {
  if (const TrainingRun* run = rung.unmeasured(); run != nullptr) return outcome_text(run->outcome);
  if (const auto agreement = agreement_of(results, rung); agreement && !agreement->is_kept)
    return "breaks its promise";
  if (!results.reference().is_measured()) return "";
  return loses_accuracy(results, rung) ? "loses accuracy" : "";
}

std::vector<std::string> train_flags(const QualityOptions& options, const QualityRung& rung, int64_t seed) {
  std::vector<std::string> words = options.flags;
  words.insert(words.end(), rung.flags.begin(), rung.flags.end());
  words.insert(words.end(), {"--seed", std::to_string(seed), "--logging_strategy", "steps", "--logging_steps",
                             "1", "--save_strategy", "no", "--report_to", "none"});
  return words;
}

QualityResults walk_quality(const QualityOptions& options, const RunProgress& on_run,
                            const std::function<void(const QualityResults&)>& on_result) {
  CHECK(!options.rungs.empty() && options.rungs[0].name == "reference", "the reference is the first rung");
  const std::filesystem::path program = own_program();
  QualityResults results{.options = options, .machine = this_machine()};
  int64_t of = 0;
  for (const QualityRung& rung : options.rungs) {
    results.rungs.push_back({rung, {}});
    of += runs_of(options, rung);
  }
  int64_t done = 0;
  if (on_run) on_run(done, of, "");
  for (int64_t s = 0; s < options.seeds; ++s) {
    for (QualityResult& result : results.rungs) {
      if (s >= runs_of(options, result.rung)) continue;
      const int64_t seed = options.first_seed + s;
      TrainingRun run = measure_training(program, train_flags(options, result.rung, seed),
                                         options.directory / fmt::format("{}-{}", result.rung.name, seed));
      run.seed = seed;
      result.runs.push_back(std::move(run));
      if (on_run) on_run(++done, of, line_of(result.rung, result.runs.back()));
      if (on_result) on_result(with_runs(results));
    }
  }
  return results;
}

int exit_code_of(const QualityResults& results) {
  for (const QualityResult& rung : results.rungs) {
    for (const TrainingRun& run : rung.runs) {
      if (run.outcome == RunOutcome::kFailed) return 1;
    }
    if (const auto agreement = agreement_of(results, rung); agreement && !agreement->is_kept) return 1;
  }
  return results.reference().is_measured() ? 0 : 2;
}

}  // namespace shoehorn
