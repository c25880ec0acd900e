#include "arguments/batch_size_ramp.h"

#include <charconv>
#include <map>
#include <sstream>
#include <string>

#include "base/error.h"

namespace shoehorn {
namespace {

constexpr const char* kExample = "SAMPLES:BATCH pairs, as 0:4,400:8,1200:16";

// "400", "2K", "1M", "1B"; -1 for anything else, or more than an integer holds.
int64_t parse_count(std::string text) {
  static const std::map<char, int64_t> kSuffixes = {{'K', 1000}, {'M', 1000000}, {'B', 1000000000}};
  int64_t times = 1;
  if (const auto suffix = text.empty() ? kSuffixes.end() : kSuffixes.find(text.back());
      suffix != kSuffixes.end()) {
    times = suffix->second;
    text.pop_back();
  }
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 0 ||
      count > (int64_t{1} << 53) / times)
    return -1;
  return count * times;
}

RampStage parse_stage(const std::string& word, int64_t micro_batch_size) {
  const size_t colon = word.find(':');
  const int64_t samples = parse_count(word.substr(0, colon));
  const int64_t batch = colon == std::string::npos ? -1 : parse_count(word.substr(colon + 1));
  if (samples < 0 || batch < 1) throw user_error("[batch_size_ramp] expected {}, got '{}'", kExample, word);
  if (batch % micro_batch_size != 0) {
    throw user_error(
        "[batch_size_ramp] expected batches that are multiples of per_device_train_batch_size {}, got {}; a "
        "batch grows by whole micro-batches",
        micro_batch_size, batch);
  }
  return {samples, batch / micro_batch_size};
}

}  // namespace

std::vector<RampStage> batch_size_ramp_of(const TrainingArguments& args) {
  const int64_t micro_batch_size = args.per_device_train_batch_size;
  std::vector<RampStage> stages;
  for (const std::string& part : args.batch_size_ramp) {
    std::istringstream words(part);  // in quotes, pairs may also stand with spaces between them
    for (std::string word; words >> word;) stages.push_back(parse_stage(word, micro_batch_size));
  }
  if (stages.empty()) {
    if (args.batch_size_ramp.empty()) return stages;
    throw user_error("[batch_size_ramp] expected {}, got nothing", kExample);
  }
  if (stages.front().samples != 0)
    throw user_error("[batch_size_ramp] expected the first batch from 0 samples on, got it from {}",
                     stages.front().samples);
  for (size_t s = 1; s < stages.size(); ++s) {
    if (stages[s].samples <= stages[s - 1].samples ||
        stages[s].micro_batches <= stages[s - 1].micro_batches) {
      throw user_error("[batch_size_ramp] expected samples and batches that grow, got {}:{} after {}:{}",
                       stages[s].samples, stages[s].micro_batches * micro_batch_size, stages[s - 1].samples,
                       stages[s - 1].micro_batches * micro_batch_size);
    }
  }
  if (stages.back().micro_batches != micro_batches_of_step(args)) {
    throw user_error(
        "[batch_size_ramp] expected to end at the effective batch {} (effective_batch_size, or "
        "per_device_train_batch_size x gradient_accumulation_steps x ranks), got {}",
        effective_batch_size(args), stages.back().micro_batches * micro_batch_size);
  }
  return stages;
}

}  // namespace shoehorn
