// The table against transformers' TrainingArguments: every field, its default, another value of it, and every
// named value is honoured or refused by name. tests/golden/training_arguments_make.py wrote what transformers
// has.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "arguments/argument_table.h"
#include "base/error_testing.h"
#include "io/file.h"
#include "io/json_file.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

// Fields with another default here, as docs/differences-from-hugging-face.md says: NaN is shown, a validation
// file is evaluated on, a stop saves a checkpoint, and the empty list is their "none".
const std::set<std::string>& other_defaults() {
  static const std::set<std::string> names = {"do_eval", "do_train", "enable_jit_checkpoint",
                                              "logging_nan_inf_filter", "report_to"};
  return names;
}

json golden() {
  return read_json(SHOEHORN_SOURCE_DIR "/tests/golden/training_arguments.json");
}

// What `words` after a model's name are for `plan`: arguments, or an error.
struct Outcome {
  TrainingArguments args;
  std::string error;
};

Outcome parsed(Words words) {
  words.insert(words.begin(), {"--model_name_or_path", "bert"});
  Outcome outcome;
  outcome.error = refusal_of([&] { outcome.args = parse_arguments(Command::kPlan, words).arguments; });
  return outcome;
}

// The error says the flag, and that it is known.
bool is_refused_by_name(const std::string& error, const std::string& name) {
  const bool is_known = contains(error, "refused") || contains(error, "not in this version");
  return contains(error, "[" + name + "] expected") && is_known;
}

TEST(ArgumentTableGolden, EveryFieldHasTransformersDefault) {
  const json fields = golden()["fields"];
  ASSERT_GT(fields.size(), 100U);
  const std::string differences =
      read_text_file(SHOEHORN_SOURCE_DIR "/docs/differences-from-hugging-face.md");
  for (const auto& [name, field] : fields.items()) {
    const ArgumentSpec* spec = find_argument(name);
    ASSERT_NE(spec, nullptr) << name;
    TrainingArguments args;
    const std::string error = refusal_of([&] { apply_json({{name, field["default"]}}, "golden", args); });
    const bool is_same = error.empty() && args == TrainingArguments();
    EXPECT_EQ(is_same, !other_defaults().contains(name)) << name << " " << field["default"] << " " << error;
    if (is_same) continue;
    EXPECT_TRUE(contains(differences, "`" + name + "`")) << name << " is no documented difference";
  }
}

// Another value than the default has its effect on the arguments, or is an error that names the flag; what
// has nothing to switch says so in its help. As words and in a configuration file.
TEST(ArgumentTableGolden, EveryFieldIsHonouredOrRefusedByName) {
  int64_t honoured = 0;
  int64_t refused = 0;
  const json fields = golden()["fields"];
  for (const auto& [name, field] : fields.items()) {
    const ArgumentSpec& spec = *find_argument(name);
    const std::string other = field["other"];
    TrainingArguments from_words;
    const std::string error = refusal_of([&] { apply_text(spec, other, name, from_words); });
    TrainingArguments from_json;
    const std::string json_error = refusal_of([&] { apply_json({{name, other}}, "file", from_json); });
    EXPECT_EQ(from_words, from_json) << name;
    EXPECT_EQ(error.empty(), json_error.empty()) << name << ": " << json_error;
    if (!error.empty()) {
      ++refused;
      EXPECT_TRUE(is_refused_by_name(error, name)) << name << " " << other << ": " << error;
      EXPECT_TRUE(is_refused_by_name(json_error, "file: " + name)) << json_error;
      EXPECT_EQ(from_words, TrainingArguments()) << name;
    } else if (from_words == TrainingArguments()) {
      const bool says_so =
          spec.is_always_so && spec.help.starts_with("accepted") && spec.status == ArgumentStatus::kSupported;
      // The value that is refused there is the default here.
      EXPECT_TRUE(says_so || other_defaults().contains(name)) << name << " " << other << " changes nothing";
    } else {
      ++honoured;
    }
  }
  EXPECT_GT(honoured, 50);
  EXPECT_GT(refused, 30);
}

TEST(ArgumentTableGolden, EveryNamedValueIsHonouredOrRefusedByName) {
  const json values = golden()["values"];
  ASSERT_GT(values["optim"].size(), 35U);
  for (const auto& [name, list] : values.items()) {
    for (const std::string value : list) {
      TrainingArguments args;
      const std::string error = refusal_of([&] { apply_text(*find_argument(name), value, name, args); });
      if (!error.empty()) {
        EXPECT_TRUE(is_refused_by_name(error, name)) << value << ": " << error;
      }
    }
  }
}

// An optimizer that is refused names those there are.
TEST(ArgumentTableGolden, OptimizersAreThereOrNameThoseThatAre) {
  Words supported;
  for (const ArgumentChoice& choice : find_argument("optim")->choices) {
    if (choice.why.empty()) supported.emplace_back(choice.value);
  }
  const std::string there_are = fmt::format("[--optim] expected one of {}, got", fmt::join(supported, ", "));
  std::set<std::string> accepted;
  const json names = golden()["values"]["optim"];
  for (const std::string name : names) {
    const Outcome outcome = parsed({"--optim", name, "--max_grad_norm", "0"});
    if (outcome.error.empty()) {
      EXPECT_EQ(outcome.args.optim, name);
      accepted.insert(name);
    } else {
      EXPECT_TRUE(contains(outcome.error, fmt::format("{} '{}'; known, but", there_are, name)))
          << outcome.error;
    }
  }
  for (const char* name : {"adamw_torch", "adamw_torch_fused", "adamw_8bit", "adamw_bnb_8bit", "adafactor",
                           "adagrad", "lion_32bit", "lion_8bit", "rmsprop", "sgd"})
    EXPECT_TRUE(accepted.contains(name)) << name;
  EXPECT_EQ(parsed({"--optim", "adamw_hf"}).error, "") << "a name of transformers 4";
}

// "--flag", "--flag 1", "--flag true" are one, as are "--no_flag", "--flag 0", "--flag=false": for every
// boolean, whether it is supported or not.
TEST(ArgumentTableGolden, EveryBooleanHasAllItsForms) {
  int64_t booleans = 0;
  for (const ArgumentSpec& spec : argument_table()) {
    if (spec.kind != ArgumentKind::kFlag || !command_takes(Command::kPlan, spec)) continue;
    ++booleans;
    const std::string flag = "--" + std::string(spec.name);
    const auto expect_same = [&](const std::vector<Words>& forms) {
      const Outcome first = parsed(forms[0]);
      for (const Words& form : forms) {
        const Outcome outcome = parsed(form);
        EXPECT_EQ(outcome.args, first.args) << form[0];
        EXPECT_EQ(outcome.error.empty(), first.error.empty())
            << form[0] << ": " << outcome.error << first.error;
        // A contradiction with a default is named as well; what cannot be parsed at all is not.
        EXPECT_FALSE(contains(outcome.error, "known flag")) << outcome.error;
        EXPECT_FALSE(contains(outcome.error, "true or false")) << outcome.error;
      }
    };
    const std::string no_flag = "--no_" + std::string(spec.name);
    expect_same({{flag}, {flag, "1"}, {flag, "true"}, {flag + "=True"}, {flag, "yes"}});
    expect_same({{no_flag}, {flag, "0"}, {flag, "false"}, {flag + "=False"}, {flag, "no"}});
  }
  EXPECT_GT(booleans, 60);
}

// A file that transformers wrote means what the same words mean.
TEST(ArgumentTableGolden, FilesOfTransformersMeanWhatTheirWordsMean) {
  const TestDirectory directory;
  const json golden_file = golden();
  const auto of_file = [&](const json& object) {
    const std::string file = directory.write("args.json", object.dump()).string();
    return parsed({"--config", file});
  };
  const Outcome written = of_file(golden_file["written"]);
  EXPECT_EQ(written.error, "");
  const Words words = golden_file["written_of"].get<Words>();
  TrainingArguments meant = parsed(words).args;
  meant.dataloader_pin_memory =
      golden_file["written"]["dataloader_pin_memory"];  // transformers looked for a GPU
  meant.disable_tqdm = false;                           // and at the log level
  EXPECT_EQ(written.args, meant);

  json other = golden_file["written"];
  other["report_to"] = {"wandb"};
  EXPECT_TRUE(contains(of_file(other).error, "report_to] expected one of")) << of_file(other).error;
  other = golden_file["written"];
  other["accelerator_config"]["split_batches"] = true;
  EXPECT_TRUE(contains(of_file(other).error, "accelerator_config] expected"));
  other = golden_file["written"];
  // Of transformers 4.
  other.update({{"_n_gpu", 1},
                {"past_index", -1},
                {"local_rank", 0},
                {"ray_scope", "last"},
                {"fsdp", json::array()},
                {"mp_parameters", ""},
                {"push_to_hub_token", "<PUSH_TO_HUB_TOKEN>"},
                {"torchdynamo", nullptr},
                {"average_tokens_across_devices", false},
                {"no_cuda", false},
                {"fp16_backend", "auto"},
                {"fsdp_config", {{"min_num_params", 0}, {"xla", false}}}});
  EXPECT_EQ(of_file(other).error, "");
  other["of_the_future"] = 3;
  EXPECT_TRUE(contains(of_file(other).error, "of_the_future] expected a known flag"));
  // Where a person wrote it, false is meant.
  EXPECT_TRUE(contains(of_file({{"average_tokens_across_devices", false}}).error, "refused"));
}

// What the guides' commands and older scripts say.
TEST(ArgumentTableGolden, OldNamesAndTheGuidesOwnArguments) {
  const std::vector<std::pair<Words, std::function<bool(const TrainingArguments&)>>> accepted = {
      {{"--evaluation_strategy", "steps"}, [](const auto& a) { return a.eval_strategy == "steps"; }},
      {{"--log_level", "error"}, [](const auto& a) { return a.log_level == "error"; }},
      {{"--overwrite_output_dir"}, [](const auto& a) { return a.overwrite_output_dir; }},
      {{"--no_cuda"}, [](const auto& a) { return a.use_cpu; }},
      {{"--use_cpu"}, [](const auto& a) { return a.use_cpu; }},
      {{"--tf32", "0"}, [](const auto& a) { return a.tf32 == false; }},
      {{"--no_tf32"}, [](const auto& a) { return a.tf32 == false; }},
      {{"--warmup_ratio", "0.1"}, [](const auto& a) { return warmup_steps_of(a, 100) == 10; }},
      {{"--warmup_steps", "0.1"}, [](const auto& a) { return warmup_steps_of(a, 100) == 10; }},
      {{"--group_by_length"}, [](const auto& a) { return a.train_sampling_strategy == "group_by_length"; }},
      {{"--precision", "16-mixed"}, [](const auto& a) { return a.fp16; }},
      {{"--precision", "bf16-mixed"}, [](const auto& a) { return a.bf16; }},
      {{"--task_name", "sst2"}, [](const auto& a) { return text_columns_of(a) == Words{"sentence"}; }},
      {{"--task_name", "mnli"},
       [](const auto& a) { return text_columns_of(a) == Words{"premise", "hypothesis"}; }},
      {{"--task_name", "qqp"},
       [](const auto& a) { return text_columns_of(a) == Words{"question1", "question2"}; }},
      {{"--task_name", "qnli"},
       [](const auto& a) { return text_columns_of(a) == Words{"question", "sentence"}; }},
      {{"--task_name", "cola"}, [](const auto& a) { return text_columns_of(a) == Words{"sentence"}; }},
      {{"--task_name", "mrpc"},
       [](const auto& a) { return a.task_name == "mrpc" && text_columns_of(a).empty(); }},
      {{"--task_name", "rte"}, [](const auto& a) { return a.task_name == "rte"; }},
      {{"--task_name", "wnli"}, [](const auto& a) { return a.task_name == "wnli"; }},
      {{"--torchdynamo", "inductor"}, [](const auto& a) { return a.torch_compile_backend == "inductor"; }},
      {{"--max_seq_length", "256"}, [](const auto& a) { return a.max_seq_length == 256; }},
  };
  for (const auto& [words, holds] : accepted) {
    const Outcome outcome = parsed(words);
    EXPECT_EQ(outcome.error, "") << words[0];
    EXPECT_TRUE(holds(outcome.args)) << words[0];
  }
  EXPECT_EQ(parsed({"--task_name", "stsb"}).args.task_name, "stsb");
  EXPECT_TRUE(is_refused_by_name(parsed({"--tf32", "1"}).error, "--tf32"));
  const std::string no_set = refusal_of([] {
    parse_arguments(Command::kTrain, {"--model_name_or_path", "m", "--train_file", "t.csv", "--task",
                                      "text-classification", "--evaluation_strategy", "epoch"});
  });
  EXPECT_TRUE(contains(no_set, "evaluation needs an evaluation set")) << no_set;
}

}  // namespace
}  // namespace shoehorn
