// `fit` and `train --fit`: what is found is what runs.
#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "base/format.h"
#include "cli_support.h"
#include "environment_count.h"
#include "fit/plan_search.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace test_support;
using nlohmann::json;

// How much the bytes of one process besides its arenas differ from one run to the next: the page cache maps neighbours of the
// pages that it touches, and oneDNN 3 makes its kernels anew.
constexpr int64_t kProcessTolerance = int64_t{8} << 20;

// What a process may take that was planned to take so much.
int64_t with_tolerance(int64_t bytes) {
  return bytes + bytes / 50 + kProcessTolerance;
}

// `parts` of `all` from the least bytes of a frontier to the most.
int64_t budget_between(const json& frontier, int64_t parts, int64_t all) {
  const auto most = frontier.front()["process_peak_bytes"].get<int64_t>();
  const auto least = frontier.back()["process_peak_bytes"].get<int64_t>();
  return least + (most - least) * parts / all;
}

class CliFit : public CliTest {
 protected:
  // Times are lower bounds, whatever the user of this machine has calibrated.
  CliFit() { setenv("XDG_CACHE_HOME", path("cache").c_str(), 1); }
  ~CliFit() override { unsetenv("XDG_CACHE_HOME"); }

  // fit or train of two steps; later flags override these.
  std::vector<std::string> words(const std::string& command, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {command,
                                      "--model_name_or_path",
                                      model().string(),
                                      "--train_file",
                                      path("train.csv").string(),
                                      "--output_dir",
                                      output().string(),
                                      "--max_steps",
                                      "2",
                                      "--logging_steps",
                                      "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  json fit(const std::vector<std::string>& more) const {
    std::vector<std::string> all = words("fit", more);
    all.emplace_back("--json");
    const ProgramRun result = run(all);
    EXPECT_TRUE(result.exit_code == 0 || result.exit_code == 2) << result.error;
    return json::parse(result.output);
  }

  // Under a budget that a process which trains may exceed by the tolerance: it is refused where it differs from its plan.
  json fit_within(int64_t budget, const std::vector<std::string>& more) const {
    const json found = fit(joined(more, {"--memory_budget", std::to_string(budget + kProcessTolerance),
                                         "--reserve", std::to_string(kProcessTolerance)}));
    EXPECT_EQ(found["budget_bytes"], budget);
    EXPECT_FALSE(found["chosen"].is_null()) << budget;
    if (!found["chosen"].is_null()) {
      EXPECT_LE(found["chosen"]["process_peak_bytes"].get<int64_t>(), budget);
    }
    return found;
  }

  // `found`: what fit says of these flags.
  void expect_planned(const json& flags, const json& found) const {
    std::vector<std::string> all = {"plan"};
    for (const json& word : flags) all.push_back(word);
    all.insert(all.end(),
               {"--memory_budget", "1000GiB", "--json"});  // rows above the budget are planned, too
    const ProgramRun result = run(all);
    ASSERT_EQ(result.exit_code, 0) << result.error;
    const json planned = json::parse(result.output);
    EXPECT_EQ(planned["arena_bytes"], found["arena_bytes"]) << flags;
    if (!measures_memory()) return;
    EXPECT_NEAR(planned["process_peak_bytes"].get<double>(), found["process_peak_bytes"].get<double>(),
                kProcessTolerance)
        << flags;
  }
};

// Of a batch whose plans differ by more than the rest of the process does from run to run.
TEST_F(CliFit, TheFlagsTakeWhatIsSaid) {
  directory_.write("train.csv", labelled_csv(512, 4));
  const std::vector<std::string> how = {"--effective_batch_size", "512", "--allow", "numerics"};
  const int64_t budget = budget_between(fit(how)["frontier"], 1, 2);
  const json found = fit_within(budget, how);
  const json& chosen = found["chosen"];
  ASSERT_FALSE(chosen.is_null());
  const auto flags = chosen["flags"].get<std::vector<std::string>>();
  expect_planned(flags, chosen);
  const ProgramRun trained = run(joined({"train"}, flags));
  EXPECT_EQ(trained.exit_code, 0) << trained.error;
  expect_peak_below(trained, with_tolerance(chosen["process_peak_bytes"].get<int64_t>()));
  const ProgramRun anatomy = run(joined(joined({"anatomy"}, flags), {"--no_measure"}));
  EXPECT_EQ(anatomy.exit_code, 0) << anatomy.error;
  for (const char* key : {"frontier", "binding", "least_budget_bytes", "techniques"})
    EXPECT_FALSE(found[key].empty()) << key;
  EXPECT_FALSE(found["binding"]["residents"].empty());
}

// Of batches that make a process twice as large as it is without.
TEST_F(CliFit, WhatTrainsStaysWithinRisingBudgets) {
  const int budgets = environment_count("SHOEHORN_FIT_BUDGETS", 5, 2);
  directory_.write("train.csv", labelled_csv(8192, 4));
  const std::vector<std::string> how = {"--effective_batch_size", "8192"};
  const json frontier = fit(how)["frontier"];
  ASSERT_GT(budget_between(frontier, 1, 1), budget_between(frontier, 0, 1) + 8 * kProcessTolerance);
  for (int i = 0; i < budgets; ++i) {
    const int64_t budget = budget_between(frontier, i, budgets - 1) + kProcessTolerance / 4;
    const json chosen = fit_within(budget, how)["chosen"];
    ASSERT_FALSE(chosen.is_null());
    const ProgramRun trained = run(joined({"train"}, chosen["flags"].get<std::vector<std::string>>()));
    ASSERT_EQ(trained.exit_code, 0) << trained.error;
    expect_peak_below(trained, with_tolerance(budget), chosen["added_flags"].dump());
    std::filesystem::remove_all(output());
  }
}

// What is recomputed is chosen anew for each budget: none of the sets changes a bit of what is trained.
TEST_F(CliFit, WhatIsChosenOfExactChangesHasTheBitsOfTheRunAsAskedFor) {
  constexpr int kBudgets = 4;
  directory_.write("train.csv", labelled_csv(2048, 4));
  const std::vector<std::string> how = {
      "--per_device_train_batch_size", "1024", "--allow", "exact", "--max_steps", "4"};
  const json frontier = fit(how)["frontier"];
  const auto trained = [&](const json& flags) {
    std::filesystem::remove_all(output());
    const ProgramRun run = this->run(joined({"train"}, flags.get<std::vector<std::string>>()));
    EXPECT_EQ(run.exit_code, 0) << run.error;
    return read_text_file(output() / "model.safetensors");
  };
  std::set<json> chosen;
  for (int i = 0; i < kBudgets; ++i) {
    const int64_t budget = budget_between(frontier, i, kBudgets - 1) + kProcessTolerance / 4;
    chosen.insert(fit_within(budget, how)["chosen"]["flags"]);
  }
  EXPECT_GE(chosen.size(), 3U) << json(chosen);
  const std::string as_asked = trained(frontier[0]["flags"]);
  for (const json& flags : chosen) EXPECT_TRUE(trained(flags) == as_asked) << flags;
}

TEST_F(CliFit, BelowTheLeastBudgetNothingFitsAndAtItSomethingDoes) {
  const ProgramRun refused = run(words("fit", {"--memory_budget", "1MiB"}));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(contains(refused.error, "Least budget that each tier of changes reaches")) << refused.error;
  EXPECT_TRUE(contains(refused.error, "What binds")) << refused.error;
  const json found = fit({"--memory_budget", "1MiB"});
  EXPECT_TRUE(found["chosen"].is_null());
  const int64_t least = found["least_budget_bytes"]["rounding"].get<int64_t>() + kProcessTolerance;
  EXPECT_FALSE(fit({"--memory_budget", std::to_string(least)})["chosen"].is_null());
}

// Processes of the same flags differ by some hundred KiB, which a budget has room for.
TEST_F(CliFit, FlagsFitTheBudgetThatTheyWereFoundFor) {
  const json least = fit({"--memory_budget", "1MiB"});
  const std::string budget = std::to_string(least["least_budget_bytes"]["rounding"].get<int64_t>());
  std::vector<std::string> command = {"plan"};
  for (const json& flag : least["least_budget_flags"]["rounding"]) command.push_back(flag);
  command.insert(command.end(), {"--memory_budget", budget, "--json"});
  for (int i = 0; i < 5; ++i) {
    const ProgramRun planned = run(command);
    EXPECT_EQ(planned.exit_code, 0) << planned.error;
  }
}

TEST_F(CliFit, WhatTheUserGaveStays) {
  const json found = fit({"--per_device_train_batch_size", "4", "--max_grad_norm", "0.5", "--optim",
                          "adamw_torch", "--allow", "numerics", "--fix", "precision"});
  for (const json& plan : found["frontier"]) {
    for (const char* flag : {"--per_device_train_batch_size", "--update_in_backward", "--optim", "--bf16"}) {
      for (const json& word : plan["added_flags"]) EXPECT_NE(word, flag);
    }
  }
  const json divided = fit({"--effective_batch_size", "16", "--per_device_train_batch_size", "4"});
  for (const json& plan : divided["frontier"]) {
    for (const json& word : plan["added_flags"]) EXPECT_NE(word, "--per_device_train_batch_size");
  }
  expect_failure(words("fit", {"--effective_batch_size", "2", "--world_size", "3"}), 2,
                 {"[--effective_batch_size] expected a sample for each of 3 ranks, got 2; give 3 or more"});
  expect_failure(words("fit", {"--forbid", "recompute", "--gradient_checkpointing"}), 2,
                 {"--forbid recompute"});
  expect_failure(words("fit", {"--deepspeed", R"({"gradient_clipping": 1})"}), 2,
                 {"[--deepspeed] expected flags for fit"});
  for (const char* look : {"--budget_sweep", "--why", "--fit_print"}) {
    expect_failure(words("fit", {look, "--verify", "3"}), 2,
                   {fmt::format("[--verify] expected without {}, got both", look)});
  }
  expect_failure(words("fit", {"--fix", "speed"}), 2, {"--fix", "batch, order, recompute"});
  expect_failure(words("fit", {"--allow", "exct"}), 2, {"--allow", "did you mean exact?"});
  expect_failure(words("fit", {"--explain"}), 2, {"[--explain] expected false", "`shoehorn plan --explain`"});
}

// Of 16 samples three ranks have no third each: some have a micro-batch less.
TEST_F(CliFit, ABatchThatRanksDoNotDivideIsDealtOut) {
  const json chosen = fit({"--effective_batch_size", "16", "--world_size", "3"})["chosen"];
  ASSERT_FALSE(chosen.is_null());
  expect_planned(chosen["flags"], chosen);
  const auto flags = chosen["flags"].get<std::vector<std::string>>();
  const auto size = std::ranges::find(flags, "--per_device_train_batch_size");
  ASSERT_NE(size, flags.end());
  EXPECT_LT(std::stoi(*std::next(size)), 6) << "a rank has at most as many samples";
}

// What a table says is what can be chosen; a tier has the changes of those below it, too.
TEST_F(CliFit, TheChoiceIsTheFastestRowThatFits) {
  const json whole = fit({"--effective_batch_size", "8", "--allow", "numerics"});
  for (const json& row : whole["frontier"]) {
    const int64_t budget = row["process_peak_bytes"].get<int64_t>() + kProcessTolerance / 4;
    const json found = fit(
        {"--effective_batch_size", "8", "--allow", "numerics", "--memory_budget", std::to_string(budget)});
    if (found["chosen"].is_null()) continue;  // the process was larger this time
    EXPECT_LE(found["chosen"]["process_peak_bytes"].get<int64_t>(), budget);
    for (const json& other : found["frontier"]) {
      if (other["process_peak_bytes"].get<int64_t>() + kSparedBytes > budget) continue;
      EXPECT_LE(found["chosen"]["step_seconds"].get<double>(), 1.011 * other["step_seconds"].get<double>())
          << found["chosen"]["added_flags"] << " of " << other["added_flags"];
    }
    const json& least = found["least_budget_bytes"];
    EXPECT_GE(least["exact"], least["rounding"]);
    EXPECT_GE(least["rounding"], least["numerics"]);
    EXPECT_GE(least["numerics"], least["adapters"]);
  }
}

TEST_F(CliFit, WhatIsReservedIsLeftFree) {
  const json all = fit({"--why", "--memory_budget", "1GiB"});
  const json less = fit({"--why", "--memory_budget", "1GiB", "--reserve", "256MiB"});
  EXPECT_EQ(all["budget_bytes"].get<int64_t>() - less["budget_bytes"].get<int64_t>(), int64_t{256} << 20);
  expect_failure(words("fit", {"--memory_budget", "1GiB", "--reserve", "much"}), 2, {"--reserve", "much"});
  for (const char* reserve : {"1GiB", "2GiB"}) {
    expect_failure(
        words("fit", {"--memory_budget", "1GiB", "--reserve", reserve}), 2,
        {"[--reserve] expected less than the memory budget of 1.00 GiB, got " + std::string(reserve, 1)});
  }
}

TEST_F(CliFit, WithoutClippingTheUpdateInTheBackwardChangesNoBit) {
  const auto updates_in_backward = [&](const std::string& norm) {
    const json found = fit({"--max_grad_norm", norm, "--allow", "exact", "--memory_budget", "1MiB"});
    return std::ranges::count(found["least_budget_flags"]["exact"], json("--update_in_backward"));
  };
  EXPECT_EQ(updates_in_backward("0"), 1)
      << "a limit of 0 says that nothing is clipped, and not when to update";
  EXPECT_EQ(updates_in_backward("1"), 0);
}

// Whatever is printed is what `plan` says of these flags. Of a batch whose plans differ by more than the rest of the process does
// from run to run.
TEST_F(CliFit, EachRowIsPlannedExactly) {
  directory_.write("train.csv", labelled_csv(512, 4));
  const std::vector<std::string> batch = {"--effective_batch_size", "512"};
  const int64_t budget = budget_between(fit(batch)["frontier"], 1, 2);
  const json found = fit(joined(batch, {"--memory_budget", std::to_string(budget)}));
  ASSERT_FALSE(found["chosen"].is_null());
  for (const json& plan : found["frontier"]) {
    expect_planned(plan["flags"], plan);
    if (plan["added_flags"] == found["chosen"]["added_flags"]) {
      EXPECT_EQ(plan["process_peak_bytes"], found["chosen"]["process_peak_bytes"]) << "one plan, one number";
    }
  }
  for (const auto& [tier, peak] : found["least_budget_bytes"].items()) {
    expect_planned(found["least_budget_flags"][tier],
                   {{"arena_bytes", found["least_budget_arena_bytes"][tier]},
                    {"process_peak_bytes", peak.get<int64_t>() - kSparedBytes}});
  }
  bool has_values = false;
  for (const json& technique : found["techniques"]) {
    std::vector<std::string> flags = words("fit", batch);
    flags.erase(flags.begin());
    for (const json& word : technique["flags"]) {
      flags.push_back(word.get<std::string>());
      has_values |= word == "--activation_budget";
    }
    expect_planned(flags, technique);
  }
  EXPECT_TRUE(has_values) << "its process holds something else besides its arenas";
}

TEST_F(CliFit, TrainWithFitEqualsItsFlags) {
  const std::vector<std::string> how = {"--effective_batch_size", "16", "--verify", "0"};
  const auto flags = fit(how)["chosen"]["flags"].get<std::vector<std::string>>();
  const auto bytes = [&](const std::string& which) {
    return read_json(output() / "all_results.json")["memory_process_" + which + "_bytes"].get<double>();
  };
  ASSERT_EQ(run(joined({"train"}, flags)).exit_code, 0);
  const std::string weights = read_text_file(output() / "model.safetensors");
  const double predicted = bytes("predicted"), measured = bytes("measured");
  std::filesystem::remove_all(output());
  const ProgramRun trained = run(joined(words("train", how), {"--fit"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.error;
  EXPECT_TRUE(contains(trained.output, "What binds")) << trained.output;
  EXPECT_TRUE(read_text_file(output() / "model.safetensors") == weights);
  if (measures_memory()) {
    EXPECT_NEAR(bytes("predicted"), predicted, kMebibyte);
    EXPECT_NEAR(bytes("measured"), measured, kMebibyte) << "the search leaves nothing in the process";
  }
}

TEST_F(CliFit, TheCurveGoesFromTheFastestPlanToTheLeastBudget) {
  std::vector<std::string> all = words("fit", {"--effective_batch_size", "16", "--budget_sweep", "--json"});
  const ProgramRun swept = run(all);
  ASSERT_EQ(swept.exit_code, 0) << swept.error;
  const json curve = json::parse(swept.output)["sweep"];
  ASSERT_GT(curve.size(), 1U);
  for (size_t i = 1; i < curve.size(); ++i) {
    EXPECT_GT(curve[i]["step_seconds"], curve[i - 1]["step_seconds"]) << i;
    EXPECT_LT(curve[i]["process_peak_bytes"], curve[i - 1]["process_peak_bytes"]) << i;
  }
  for (const json& plan : curve) expect_planned(plan["flags"], plan);
  all.pop_back();
  EXPECT_TRUE(contains(run(all).output, "The fastest plan of each budget"));
}

TEST_F(CliFit, WhyLooksAtTheRunAsItIs) {
  const ProgramRun why = run(words("fit", {"--why", "--gradient_checkpointing"}));
  ASSERT_EQ(why.exit_code, 0) << why.error;
  for (const char* part : {"What binds", "What each technique buys alone", "8-bit AdamW", "a step takes"})
    EXPECT_TRUE(contains(why.output, part)) << part << "\n" << why.output;
  EXPECT_FALSE(contains(why.output, "recompute every layer")) << "it does already: " << why.output;
  expect_failure(words("fit", {"--why", "--fit_print"}), 2, {"--fit_print", "--why"});
  expect_failure(words("fit", {"--why", "--json_file", path("why.json")}), 2,
                 {"[--json_file] expected without --why"});
}

TEST_F(CliFit, TheBytesOfOneRunAreThoseOfItsPlan) {
  const ProgramRun printed = run(words("fit", {"--fit_print", "--json"}));
  ASSERT_EQ(printed.exit_code, 0) << printed.error;
  std::vector<std::string> plan = words("plan", {"--json"});
  const json planned = json::parse(run(plan).output);
  const json bytes = json::parse(printed.output);
  EXPECT_EQ(bytes["arena_bytes"], planned["arena_bytes"]);
  EXPECT_EQ(bytes["by_role"], planned["by_role"]);
  EXPECT_TRUE(contains(run(words("fit", {"--fit_print"})).output, "peak of the whole process"));
}

TEST_F(CliFit, APageHasTheFrontierAndTheTechniques) {
  const ProgramRun found =
      run(words("fit", {"--report", path("fit.html").string(), "--memory_budget", "1GiB"}));
  ASSERT_EQ(found.exit_code, 0) << found.error;
  const std::string page = read_text_file(path("fit.html"));
  for (const char* part : {"Less memory takes longer", "What binds", "What each technique buys alone",
                           "Least budget of each tier", "shoehorn train", "<svg"})
    EXPECT_TRUE(contains(page, part)) << part;
  EXPECT_FALSE(contains(page, "Measured, in turns"));
  EXPECT_TRUE(contains(found.output, "Report in " + path("fit.html").string())) << found.output;
}

// The card above the page, the row of the frontier, the row of the run as asked for, and `plan` say one number.
TEST_F(CliFit, APageHasOneNumberForAPlan) {
  const std::vector<std::string> given = {"--report", path("fit.html").string(), "--memory_budget", "1GiB",
                                          "--fix",    "batch,recompute",         "--json"};
  const ProgramRun result = run(words("fit", given));
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const json found = json::parse(result.output);
  const json& chosen = found["chosen"];
  ASSERT_EQ(found["frontier"].front()["added_flags"], chosen["added_flags"]) << "everything fits";
  EXPECT_EQ(found["frontier"].front()["process_peak_bytes"], chosen["process_peak_bytes"]);
  expect_planned(chosen["flags"], chosen);
  for (const json& technique : found["techniques"]) {
    if (technique["flags"] == chosen["added_flags"]) {
      EXPECT_EQ(technique["process_peak_bytes"], chosen["process_peak_bytes"]) << technique["name"];
    }
  }
  const std::string page = read_text_file(path("fit.html"));
  const std::string peak = format_bytes(chosen["process_peak_bytes"].get<int64_t>());
  const size_t card = page.find(peak);
  ASSERT_NE(card, std::string::npos) << peak;
  EXPECT_LT(card, page.find("Less memory takes longer"));
  EXPECT_NE(page.find(peak, page.find("Less memory takes longer")), std::string::npos) << peak;
}

TEST_F(CliFit, APageHasWhatWasMeasured) {
  const ProgramRun found = run(words("fit", {"--report", path("fit.html").string(), "--json_file",
                                             path("fit.json").string(), "--verify", "2"}));
  ASSERT_EQ(found.exit_code, 0) << found.error;
  EXPECT_TRUE(contains(found.output, "To train:\n"));
  EXPECT_EQ(read_json(path("fit.json"))["chosen"]["step_seconds_are"], "measured");
  const std::string page = read_text_file(path("fit.html"));
  for (const char* part : {"step, measured", "Measured, in turns"}) EXPECT_TRUE(contains(page, part)) << part;
}

// A model that takes 512 tokens, of which texts have some ten: steps of random tokens are of another program, and larger than the
// budget.
TEST_F(CliFit, FinalistsAreRunOnTheTextsOfTheRun) {
  json config = read_json(model() / "config.json");
  config["max_position_embeddings"] = 512;
  config["intermediate_size"] = 512;
  std::filesystem::create_directories(path("long"));
  write_json_atomic(path("long") / "config.json", config);
  const std::vector<std::string> of_model = {"--config_name", path("long"),       "--tokenizer_name",
                                             model(),         "--max_seq_length", "512",
                                             "--fix",         "optimizer"};
  const std::vector<std::string> of_texts = {"--train_file",         path("train.csv"), "--validation_file",
                                             path("validation.csv"), "--output_dir",    output()};
  const auto result = [&](std::vector<std::string> command, const std::vector<std::string>& more) {
    command.insert(command.end(), more.begin(), more.end());
    command.emplace_back("--json");
    const ProgramRun ended = run(command);
    EXPECT_EQ(ended.exit_code, 0) << ended.error;
    return json::parse(ended.output);
  };
  const auto peak = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "plan",  "--config_name",    path("long"), "--tokenizer_name",
        model(), "--max_seq_length", "512",        "--per_device_train_batch_size",
        "16"};
    return result(words, more)["process_peak_bytes"].get<int64_t>();
  };
  const int64_t budget = (peak({}) + peak(of_texts)) / 2;
  std::vector<std::string> words = {
      "fit", "--verify", "2", "--effective_batch_size", "16", "--memory_budget", std::to_string(budget)};
  words.insert(words.end(), of_model.begin(), of_model.end());
  const json found = result(words, of_texts);
  const json& chosen = found["chosen"];
  EXPECT_EQ(chosen["step_seconds_are"], "measured") << found["not_measured"];
  EXPECT_EQ(found["not_measured"], json::array());
  EXPECT_NEAR(chosen["epoch_seconds"].get<double>(), chosen["step_seconds"].get<double>() * 48 / 16, 1e-9);
  const auto flags = chosen["flags"].get<std::vector<std::string>>();
  const json step = result({"bench", "step", "--on_texts", "--no_limits", "--max_steps", "2"}, flags);
  EXPECT_EQ(step["program"], result({"plan"}, flags)["program"]);
  const double tokens = step["tokens_per_second"].get<double>() * step["step_seconds"].get<double>();
  EXPECT_GT(tokens, 16 * 3);
  EXPECT_LT(tokens, 16 * 24);
  std::vector<std::string> random = {"bench", "step", "--no_limits", "--max_steps", "2"};
  random.insert(random.end(), flags.begin(), flags.end());
  EXPECT_EQ(run(random).exit_code, 2) << "the step that was run before";
}

// Ten texts of 3 tokens and one of 52 have 7.5 on average: batches of them are never as large as eleven long ones.
TEST_F(CliFit, LowerBoundsAreOfTheRealLengths) {
  const auto texts = [&](const std::string& name, const std::vector<int>& words_of_rows) {
    std::string csv = "text,label\n";
    for (size_t i = 0; i < words_of_rows.size(); ++i) {
      for (int word = 0; word < words_of_rows[i]; ++word) csv += "glea ";
      csv += i % 2 == 0 ? ",LABEL_0\n" : ",LABEL_1\n";
    }
    directory_.write(name, csv);
    return path(name);
  };
  std::vector<int> mixed(11, 1);
  mixed.back() = 50;
  const auto bounds = [&](const std::filesystem::path& file, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"--model_name_or_path",
                                      model(),
                                      "--train_file",
                                      file,
                                      "--max_seq_length",
                                      "64",
                                      "--per_device_train_batch_size",
                                      "11",
                                      "--output_dir",
                                      output(),
                                      "--machine_profile",
                                      "a100",
                                      "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = [&](const std::string& command) {
      std::vector<std::string> all = words;
      all.insert(all.begin(), command);
      const ProgramRun ended = run(all);
      EXPECT_EQ(ended.exit_code, 0) << ended.error;
      return json::parse(ended.output);
    };
    const auto of_plan = result("plan")["step_seconds"].get<double>();
    EXPECT_DOUBLE_EQ(of_plan, result("fit")["techniques"][0]["step_seconds"].get<double>());
    return of_plan;
  };
  const std::filesystem::path file = texts("mixed.csv", mixed);
  const double bound = bounds(file);
  EXPECT_LE(bound, bounds(texts("even.csv", std::vector<int>(11, 6))));
  EXPECT_LT(bound, 0.9 * bounds(texts("long.csv", std::vector<int>(11, 50))));
  EXPECT_LT(bound, 0.9 * bounds(file, {"--pad_to_max_length"}));
}

TEST_F(CliFit, AFinalistThatCannotRunIsNamed) {
  directory_.write("three.csv", "text,label\nprea hust,a\nglea,b\nchai trou,c\nstat,a\n");
  const std::vector<std::string> verified = {"--train_file", path("three.csv"), "--verify", "1"};
  const json found = fit(verified);
  EXPECT_EQ(found["chosen"]["step_seconds_are"], "lower bound");
  ASSERT_EQ(found["not_measured"].size(), 1U);
  EXPECT_EQ(found["not_measured"][0]["added_flags"], found["chosen"]["added_flags"]);
  EXPECT_TRUE(contains(found["not_measured"][0]["reason"].get<std::string>(), "--ignore_mismatched_sizes"));
  const ProgramRun text = run(words("fit", verified));
  ASSERT_EQ(text.exit_code, 0) << text.error;
  EXPECT_TRUE(contains(text.output, "not measured         as asked for: [")) << text.output;
  EXPECT_FALSE(contains(text.output, "--verify 3 measures")) << "that was tried: " << text.output;
}

// A tier may be allowed without the one below it: what is told then is what these changes reach.
TEST_F(CliFit, TheLeastBudgetIsOfWhatIsAllowed) {
  const auto least_with = [&](const std::string& allowed) {
    const ProgramRun refused = run({"fit", "--model", "bert-mini", "--sequence_length", "32", "--allow",
                                    allowed, "--memory_budget", "20MiB"});
    EXPECT_EQ(refused.exit_code, 2) << refused.output;
    const std::string begin = "expected at least ";
    const size_t at = refused.error.find(begin);
    EXPECT_NE(at, std::string::npos) << refused.error;
    return std::stod(refused.error.substr(at + begin.size()));  // MiB
  };
  const double adapters = least_with("adapters");
  EXPECT_GT(adapters, least_with("numerics,adapters") + 10) << "bf16 without masters and Adafactor";
  const ProgramRun found =
      run({"fit", "--model", "bert-mini", "--sequence_length", "32", "--allow", "adapters", "--memory_budget",
           fmt::format("{:.0f}MiB", adapters + 8), "--json"});
  ASSERT_EQ(found.exit_code, 0) << found.error;
  EXPECT_FALSE(contains(parse_json(found.output, "fit")["chosen"]["flags"].dump(), "bf16"));
}

// What a run goes on from, or lacks, is not offered to be changed.
TEST_F(CliFit, OffersWhatTrainTakes) {
  const auto techniques_of = [&](const std::vector<std::string>& more) {
    std::set<std::string> names;
    const json found = fit(joined({"--why"}, more));
    for (const json& technique : found["techniques"]) names.insert(technique["name"].get<std::string>());
    return names;
  };
  const std::set<std::string> all = techniques_of({});
  for (const char* name : {"LoRA of rank 8", "Adafactor", "8-bit AdamW", "bf16"})
    EXPECT_TRUE(all.contains(name)) << name;
  ASSERT_EQ(run(train_words({"--save_steps", "2"})).exit_code, 0);
  const std::set<std::string> resumed =
      techniques_of({"--max_steps", "8", "--resume_from_checkpoint", output() / "checkpoint-2"});
  for (const char* name : {"LoRA of rank 8", "Adafactor", "8-bit AdamW", "bf16"})
    EXPECT_FALSE(resumed.contains(name)) << name;
  EXPECT_TRUE(resumed.contains("recompute every layer"));
  const ProgramRun of_new = run({"fit", "--config_name", model() / "config.json", "--tokenizer_name", model(),
                                 "--train_file", path("train.csv"), "--output_dir", path("new"), "--json"});
  ASSERT_EQ(of_new.exit_code, 0) << of_new.error;
  EXPECT_FALSE(contains(of_new.output, "LoRA")) << "adapters are of weights that were saved";
  EXPECT_TRUE(contains(of_new.output, "Adafactor"));
}

// What a plan does without and a run does not has a placeholder.
TEST_F(CliFit, TheCommandThatTrainsSaysWhatIsMissing) {
  const ProgramRun found =
      run({"fit", "--model", "bert-mini", "--sequence_length=32", "--per_device_train_batch_size", "2"});
  ASSERT_EQ(found.exit_code, 0) << found.error;
  EXPECT_TRUE(contains(found.output,
                       "To train:\n  shoehorn train --model_name_or_path DIR --sequence_length=32 "
                       "--per_device_train_batch_size 2 --train_file FILE"))
      << found.output;
  EXPECT_FALSE(contains(run(words("fit", {})).output, "FILE"));
}

TEST_F(CliFit, PlansForAMachineOfTheCatalogue) {
  const json found = fit({"--machine_profile", "a100", "--price_per_hour", "2"});
  EXPECT_EQ(found["chosen"]["validated"], false);
  EXPECT_EQ(found["chosen"]["step_seconds_are"], "lower bound");
  EXPECT_EQ(found["budget_bytes"], 80'000'000'000);
  EXPECT_NEAR(found["chosen"]["epoch_price"].get<double>(),
              found["chosen"]["epoch_seconds"].get<double>() / 1800, 1e-12);
  const ProgramRun text = run(words("plan", {"--machine_profile", "h100"}));
  EXPECT_TRUE(contains(text.output, "NVIDIA H100 SXM")) << text.output;
  EXPECT_TRUE(contains(text.output, "not validated")) << text.output;
  expect_failure(words("fit", {"--machine_profile", "a101"}), 2, {"--machine_profile", "a100-80gb"});
  expect_failure(words("fit", {"--machine_profile", "a100", "--verify", "2"}), 2, {"--verify"});
}

// Values that are recomputed give hundreds of plans that differ by a few MiB: the curve reaches the least budget without a hole.
TEST_F(CliFit, TheCurveOfBudgetsHasNoHoles) {
  const ProgramRun run =
      this->run({"fit", "--model", "bert-large", "--per_device_train_batch_size", "8", "--max_seq_length",
                 "512", "--bf16", "--optim", "adamw_8bit", "--update_in_backward", "--max_grad_norm", "0",
                 "--budget_sweep", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.error;
  const json curve = json::parse(run.output).at("sweep");
  const auto bytes = [&](size_t at) { return curve.at(at).at("process_peak_bytes").get<int64_t>(); };
  ASSERT_GT(curve.size(), 10U);
  for (size_t at = 1; at < curve.size(); ++at)
    EXPECT_LE(bytes(at - 1) - bytes(at), (bytes(0) - bytes(curve.size() - 1)) / 10) << at;
}

}  // namespace
}  // namespace shoehorn
