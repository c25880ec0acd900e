// Whatever the settings, processes take what `plan` says of them, through loading, training, evaluating and saving. Settings that
// go together are drawn at random: of an encoder and of a decoder, of several lengths, alone and on ranks.
//
// SHOEHORN_DRAWS=100 draws a hundred; by default a few.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "beside_program.h"
#include "cli_support.h"
#include "environment_count.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
using nlohmann::json;
namespace fs = std::filesystem;

constexpr int kDraws = 24;

int number_of_draws() {
  return environment_count("SHOEHORN_DRAWS", kDraws);
}

// What a run is given, and an evaluation of what it saved.
struct DrawnSettings {
  int ranks = 1;
  std::vector<std::string> train;
  std::vector<std::string> eval;

  bool has(const std::string& flag) const {
    return std::find(train.begin(), train.end(), flag) != train.end();
  }
  std::string text() const {
    std::string words = std::to_string(ranks) + " ranks:";
    for (const std::string& word : train) words += " " + word;
    return words;
  }
};

class CliDrawnSettings : public CliTest {
 protected:
  CliDrawnSettings() {
    setenv("XDG_CACHE_HOME", path("cache").c_str(), 1);
    directory_.write("train.csv", labelled_csv(5120, 4));
    directory_.write("dev.csv", labelled_csv(512, 5));
    std::string texts;
    for (int i = 0; i < 2000; ++i)
      texts += i % 3 == 0 ? "the cat sat on the mat\n" : "a dog ran to the park\n";
    directory_.write("texts.txt", texts);
    directory_.write("dev.txt", texts.substr(0, texts.size() / 4));
    const ProgramRun tokenizer = run({"tokenizer", "train", "--output_dir", path("tokenizer").string(),
                                      "--vocab_size", "280", path("texts.txt").string()});
    EXPECT_EQ(tokenizer.exit_code, 0) << tokenizer.error;
    const ProgramRun decoder =
        run({"train", "--task", "causal-lm", "--model_type", "llama", "--config_overrides",
             "hidden_size=32,intermediate_size=48,num_hidden_layers=2,num_attention_heads=4,"
             "num_key_value_heads=2,vocab_size=280,max_position_embeddings=64",
             "--tokenizer_name", path("tokenizer").string(), "--train_file", path("dev.txt").string(),
             "--block_size", "64", "--max_steps", "1", "--output_dir", path("decoder").string()});
    EXPECT_EQ(decoder.exit_code, 0) << decoder.error;
  }
  ~CliDrawnSettings() override { unsetenv("XDG_CACHE_HOME"); }

  DrawnSettings drawn(std::mt19937& random) const;

  // Runs train with these words, on as many ranks as the settings have.
  ProgramRun run_on_ranks(const DrawnSettings& settings, const std::vector<std::string>& words) const {
    if (settings.ranks == 1) return run(words);
    return run(joined({"launch", "--nproc_per_node", std::to_string(settings.ranks)}, words));
  }

  // That a process took what was planned.
  void expect_planned(int64_t measured, int64_t planned, const std::string& what) {
    const int64_t off = std::abs(measured - planned);
    EXPECT_LE(off, std::max(planned / 50, 16 * kMebibyte))
        << what << ": measured " << measured << ", planned " << planned;
    beside_one_percent_ += off > std::max(planned / 100, 8 * kMebibyte) ? 1 : 0;
    errors_mebibytes_.push_back(static_cast<double>(off) / kMebibyte);
  }

  // The settings' process is planned and run. With `others`, it is resumed, and what it saved is evaluated by a process that does
  // nothing else.
  void expect_all_planned(const DrawnSettings& settings, bool others, const std::string& what);

  // The distribution of the errors.
  void tell_errors() {
    std::sort(errors_mebibytes_.begin(), errors_mebibytes_.end());
    const auto quantile = [&](size_t percent) {
      return errors_mebibytes_[(errors_mebibytes_.size() - 1) * percent / 100];
    };
    std::printf(
        "  %zu processes: predicted within %.1f MiB in the median, %.1f of 95%%, %.1f of all; %d beside 1%% and 8 MiB\n",
        errors_mebibytes_.size(), quantile(50), quantile(95), quantile(100), beside_one_percent_);
  }

  const bool has_mpi_ = has_mpi();
  std::vector<double> errors_mebibytes_;
  int beside_one_percent_ = 0;
};

// Flags of train that go together with `precision`, drawn by `random`.
std::vector<std::string> drawn_step(std::mt19937& random, uint32_t most_batch_bits,
                                    const std::string& precision) {
  const auto below = [&](uint32_t count) { return random() % count; };
  std::vector<std::string> flags;
  const auto add = [&](std::initializer_list<std::string> words) { flags.insert(flags.end(), words); };
  const uint32_t steps = 1 + below(3);
  const bool is_layer_major = steps > 1 && below(2) == 0;
  add({"--per_device_train_batch_size", std::to_string(1U << below(most_batch_bits))});
  add({"--gradient_accumulation_steps", std::to_string(steps)});
  if (is_layer_major) add({"--accumulation_order", "layer_major"});
  const std::vector<std::string> optimizers = {"adamw_torch", "adamw_8bit", "adafactor", "sgd", "lion_32bit"};
  add({"--optim", optimizers[below(5)]});
  if (const uint32_t how = below(3); how == 0) {
    add({"--gradient_checkpointing"});
  } else if (how == 1) {
    add({"--activation_budget", "0." + std::to_string(1 + below(8))});
  }
  if ((steps == 1 || is_layer_major) && below(2) == 0) {
    add({"--update_in_backward", "--max_grad_norm", "0"});
    if (precision == "--fp16") add({"--loss_scale", "1024"});  // not a dynamic one
  }
  if (below(4) == 0) {
    add({"--lora_rank", "8"});
    if (below(2) == 0) add({"--lora_merge"});
  }
  return flags;
}

DrawnSettings CliDrawnSettings::drawn(std::mt19937& random) const {
  const auto below = [&](uint32_t count) { return random() % count; };
  const bool is_decoder = below(3) == 0;
  const bool is_shared = below(6) == 0 && has_mpi_;
  const std::string length = std::to_string(16U << below(3));
  const std::string dev = path(is_decoder ? "dev.txt" : "dev.csv").string();
  // Of all phases alike.
  std::vector<std::string> shared = {"--validation_file",
                                     dev,
                                     is_decoder ? "--block_size" : "--max_seq_length",
                                     length,
                                     "--per_device_eval_batch_size",
                                     std::to_string(1U << below(9))};
  if (!is_decoder && below(3) == 0) shared.emplace_back("--pad_to_max_length");
  // A thread a rank, as ranks have that share two processors; a plan of them knows no other processors than this machine's.
  if (is_shared) shared = joined(shared, {"--num_threads", "1"});
  const std::string precision = std::vector<std::string>{"", "--bf16", "--bf16", "--fp16"}[below(4)];
  if (!precision.empty()) shared.push_back(precision);
  std::vector<std::string> train = joined(drawn_step(random, is_decoder ? 7 : 9, precision), shared);
  if (precision == "--bf16" && below(2) == 0) train = joined(train, {"--master_weights", "none"});
  if (is_shared) train = joined(train, {"--zero_stage", std::to_string(below(4))});
  if (is_decoder)
    train = joined(train, {"--model_name_or_path", path("decoder").string(), "--train_file",
                           path("texts.txt").string()});
  return {
      .ranks = is_shared ? 2 : 1,
      .train = train_words(joined(train, {"--eval_strategy", "steps", "--eval_steps", "1", "--save_strategy",
                                          "steps", "--save_steps", "2", "--max_steps", "2"})),
      .eval = joined(
          {"eval", "--model_name_or_path", output().string(), "--output_dir", path("evaluated").string()},
          shared)};
}

void CliDrawnSettings::expect_all_planned(const DrawnSettings& settings, bool others,
                                          const std::string& what) {
  std::vector<std::string> plan =
      joined(settings.train, {"--json", "--world_size", std::to_string(settings.ranks)});
  plan[0] = "plan";
  const ProgramRun planned = run(plan);
  ASSERT_EQ(planned.exit_code, 0) << what << "\n" << planned.error;
  const json forecast = parse_json(planned.output, "output");
  const auto peak = forecast["process_peak_bytes"].get<int64_t>();
  int64_t largest_phase = 0;
  for (const json& phase : forecast["phases"])
    largest_phase = std::max(largest_phase, phase["process_peak_bytes"].get<int64_t>());
  EXPECT_EQ(largest_phase, peak) << what;
  const auto measured = [&] {
    return read_json(output() / "all_results.json")["memory_process_measured_bytes"].get<int64_t>();
  };
  const ProgramRun trained = run_on_ranks(settings, settings.train);
  ASSERT_EQ(trained.exit_code, 0) << what << "\n" << trained.error;
  expect_planned(measured(), peak, what);
  if (!others) return;
  const ProgramRun resumed = run_on_ranks(
      settings, joined(settings.train, {"--resume_from_checkpoint", "true", "--max_steps", "3"}));
  ASSERT_EQ(resumed.exit_code, 0) << what << "\n" << resumed.error;
  expect_planned(measured(), peak, "resume of " + what);
  const ProgramRun evaluated = run(settings.eval);
  ASSERT_EQ(evaluated.exit_code, 0) << what << "\n" << evaluated.error;
  expect_planned(evaluated.peak_bytes, forecast["evaluation_only"]["process_peak_bytes"].get<int64_t>(),
                 "eval of " + what);
}

// Of 100 settings, 95 within a percent or 8 MiB, and all within two percent or 16 MiB.
TEST_F(CliDrawnSettings, ProcessesTakeWhatIsPlanned) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  constexpr int kOthersEvery = 3;
  std::map<std::string, int> seen;
  for (int seed = 1; seed <= number_of_draws(); ++seed) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    const DrawnSettings settings = drawn(random);
    expect_all_planned(settings, seed % kOthersEvery == 0,
                       "seed " + std::to_string(seed) + ", " + settings.text());
    if (HasFatalFailure()) return;
    fs::remove_all(output());
    for (const char* flag : {"--bf16", "--fp16", "--loss_scale", "--master_weights", "--update_in_backward"})
      seen[flag] += settings.has(flag) ? 1 : 0;
    if (has_mpi_) seen["ranks"] += settings.ranks > 1 ? 1 : 0;
  }
  tell_errors();
  for (const auto& [kind, settings] : seen)
    EXPECT_TRUE(settings > 0 || number_of_draws() < kDraws) << kind << " was not drawn";
  EXPECT_LE(beside_one_percent_, std::ssize(errors_mebibytes_) / 20);
}

}  // namespace
}  // namespace shoehorn
