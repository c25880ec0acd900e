#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "arguments/command_options.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/result_file.h"
#include "cli/stopped_bench.h"
#include "exec/backend/thread_count.h"
#include "io/file.h"
#include "lab/quality.h"
#include "lab/quality_page.h"
#include "lab/quality_text.h"
#include "lab/quick_task.h"
#include "lab/scratch_directory.h"

namespace shoehorn {

namespace {

using enum ArgumentKind;

constexpr const char* kQualityIntroduction =
    R"(One task trained to its end under each technique, a process a run: accuracy, loss, time and memory side by side.
Give the model, the files and other flags of train; the first setting, the reference, trains with them as they
are, in fp32 with AdamW, and the others add their own.

  shoehorn bench quality --model_name_or_path DIR --train_file train.csv --validation_file dev.csv [FLAGS]

The reference runs with several seeds. A setting "loses accuracy" where its mean evaluation accuracy is lower than
the reference's by more than twice the pooled standard error of the two means, and lower than the reference's
lowest run. Exact techniques are held to their promise: the reference's losses to the bit, or up to rounding (the
losses of the first 3 steps within 1e-4 of theirs). Exit code: 0 also where settings lose; 1 where a run broke down
or a promise was broken; 2 where the reference cannot run.
)";

// Flags of train that the command sets itself.
constexpr std::array<std::string_view, 7> kSetByQuality = {
    "output_dir",    "seed",      "logging_strategy",    "logging_steps",
    "save_strategy", "report_to", "effective_batch_size"};

const std::vector<ArgumentSpec>& bench_quality_option_rows() {
  static const std::vector<ArgumentSpec> rows = {
      {.name = "seeds",
       .kind = kInteger,
       .standard = int64_t{3},
       .help = "runs of the reference, with seeds 42, 43, …; 2 or more"},
      {.name = "rung_seeds",
       .kind = kInteger,
       .standard = int64_t{3},
       .help = "runs of each other setting, with the first of these seeds"},
      {.name = "rungs",
       .kind = kList,
       .standard = std::vector<std::string>(),
       .help = "only these, by the names that stand beside the flags, and what they are compared with"},
      {.name = "quick",
       .kind = kFlag,
       .standard = false,
       .help = "a made-up task and a small model, in a minute; 2 seeds of the reference and 1 of the others "
               "unless given"},
      result_json_row(),
      result_json_file_row(),
      result_report_row(),
  };
  return rows;
}

// Rungs come behind the shared flags, so a value of theirs would be lost without a word.
void refuse_flags_of_rungs(const ParsedArguments& parsed) {
  refuse_set_rows(parsed, kSetByQuality, "bench quality sets it");
  for (const std::string& name : flags_of_quality_rungs()) {
    const ArgumentSpec* spec = find_argument(name);
    CHECK(spec != nullptr, "a rung has the flag --{}", name);
    const ArgumentValue value = argument_value(*spec, parsed.arguments);
    if (value != spec->standard)
      throw user_error("[--{}] expected no value, because the settings that are compared give it, got {}",
                       name, argument_to_text(value));
  }
}

QualityOptions quality_options(const CommandOptions& given, const ScratchDirectory& scratch) {
  QualityOptions options;
  const bool quick = given.flag("quick");
  options.directory = scratch.path();
  options.seeds =
      quick && !given.is_given("seeds") ? 2 : given.integer_at_least("seeds", 2, "; one has no spread");
  options.rung_seeds = quick && !given.is_given("rung_seeds") ? 1 : given.integer_at_least("rung_seeds", 1);
  if (quick) options.flags = quick_task_flags(scratch.path());
  options.flags.insert(options.flags.end(), given.rest.begin(), given.rest.end());
  const ParsedArguments parsed = parse_arguments(Command::kBenchQuality, options.flags);
  const TrainingArguments& args = parsed.arguments;
  use_threads(args.num_threads);
  if (args.validation_file.empty())
    throw user_error(
        "[--validation_file] expected a value for bench quality, got nothing; accuracy is measured on it");
  if (args.prediction_loss_only)
    throw user_error("[--prediction_loss_only] expected false, because accuracy is compared, got true");
  refuse_flags_of_rungs(parsed);
  for (const char* name : {"model_name_or_path", "train_file", "validation_file"}) {
    if (quick && std::count(parsed.given.begin(), parsed.given.end(), name) > 1)
      throw user_error("[--{}] expected no value with --quick, which brings its own task, got one", name);
  }
  options.base = {args.per_device_train_batch_size, args.learning_rate};
  options.rungs = choose_quality_rungs(options.base, given.list("rungs"));
  options.title = quick ? std::string("a made-up task of four labels")
                        : fmt::format("{} on {}, evaluated on {}", args.model_name_or_path, args.train_file,
                                      args.validation_file);
  return options;
}

}  // namespace

CommandHelp help_of_bench_quality() {
  std::string settings = "Settings, with a batch of 8:\n";
  for (const QualityRung& rung : quality_rungs({}))
    settings += fmt::format("  {:<38}{}\n", rung.name, rung.setting);
  std::vector<std::string> set(kSetByQuality.begin(), kSetByQuality.end());
  for (std::string& name : flags_of_quality_rungs()) set.push_back(std::move(name));
  return {.name = "bench quality",
          .introduction = kQualityIntroduction,
          .own_rows = bench_quality_option_rows(),
          .table = Command::kBenchQuality,
          .remarks = std::move(settings),
          .set_by_itself = std::move(set)};
}

int run_bench_quality(const std::vector<std::string>& words) {
  const CommandOptions given =
      parse_result_options(bench_quality_option_rows(), words, OtherWords::kTableFlags);
  const StopSignals signals;
  const ScratchDirectory scratch;
  const QualityOptions options = quality_options(given, scratch);
  prepare_result_files(given);
  if (given.flag("quick")) write_quick_task(scratch.path());
  const auto write_files = [&given](const QualityResults& so_far) {
    write_report(given, [&] { return quality_page(so_far); });
    write_result_file(given, to_json(so_far));
  };
  const auto print = [&given](const QualityResults& results) {
    write_result(given, to_json(results), format_quality(results));
  };
  const QualityResults results = walk_until_stopped<QualityResults>(
      [&](const auto& on_result) { return walk_quality(options, show_progress("quality"), on_result); },
      write_files, print, rungs_so_far);
  return exit_code_of(results);
}

}  // namespace shoehorn
