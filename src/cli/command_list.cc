#include "cli/command_list.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.h"

namespace shoehorn {

namespace {

bool is_in_group(std::string_view name, std::string_view group) {
  return name.size() > group.size() && name.starts_with(group) && name[group.size()] == ' ';
}

}  // namespace

const std::vector<CommandEntry>& command_list() {
  static const std::vector<CommandEntry> commands = {
      {"train", "fine-tune a model of a Hugging Face directory", run_train, help_of_train},
      {"launch", "train, eval, predict, topo or bench step as several ranks, started by mpirun", run_launch,
       help_of_launch},
      {"eval", "loss, accuracy and F1 of a model on a labelled file", run_eval, help_of_eval},
      {"predict", "label and scores for each text of a file", run_predict, help_of_predict},
      {"generate", "texts that a language model writes", run_generate, help_of_generate},
      {"plan", "what training would take, to the byte, without running it", run_plan, help_of_plan},
      {"fit", "the fastest settings that fit the memory, and the flags that train with them", run_fit,
       help_of_fit},
      {"calibrate", "what operations cost on this machine, so that fit and plan tell times", run_calibrate,
       help_of_calibrate},
      {"topo", "what hosts are made of, and how fast ranks reach each other", run_topo, help_of_topo},
      {"anatomy", "where the memory and the time of a training step go", run_anatomy, help_of_anatomy},
      {"bench step", "speed and memory of the training step on random tokens", run_bench_step,
       help_of_bench_step},
      {"bench batch", "the same by batch size, and which is best", run_bench_batch, help_of_bench_batch},
      {"bench ladder", "the settings of the efficient-training guides, one by one; also against Hugging Face",
       run_bench_ladder, help_of_bench_ladder},
      {"bench quality", "one task trained to its end under each technique: accuracy, time and memory",
       run_bench_quality, help_of_bench_quality},
      {"bench parallel",
       "one training by one process, by ranks and by DataParallel, over fast and slow links",
       run_bench_parallel, help_of_bench_parallel},
      {"tokenizer", "texts to token ids and back", run_tokenizer, help_of_tokenizer, {"encode", "decode"}},
      {"tokenizer train", "a tokenizer of one's own, from files of text", run_tokenizer_train,
       help_of_tokenizer_train},
      {"compare", "runs beside each other: losses, metrics, memory, time, arguments that differ", run_compare,
       help_of_compare},
      {"env", "what was detected and measured about this machine", run_env, help_of_env},
      {"completion",
       "what completes command lines in bash, zsh and fish",
       run_completion,
       help_of_completion,
       {"bash", "zsh", "fish"}},
      {"man", "the manual page", run_man, help_of_man},
  };
  return commands;
}

std::pair<const CommandEntry*, std::vector<std::string>> find_command(const std::vector<std::string>& words) {
  for (const size_t count : {size_t{2}, size_t{1}}) {
    if (words.size() < count) continue;
    const std::string name = count == 2 ? words[0] + " " + words[1] : words[0];
    for (const CommandEntry& entry : command_list()) {
      if (entry.name == name)
        return {&entry, {words.begin() + static_cast<std::ptrdiff_t>(count), words.end()}};
    }
  }
  return {nullptr, words};
}

std::vector<std::string> commands_in_group(std::string_view group) {
  std::vector<std::string> names;
  for (const CommandEntry& entry : command_list()) {
    if (is_in_group(entry.name, group)) names.emplace_back(entry.name.substr(group.size() + 1));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string format_command_list(std::string_view group) {
  size_t width = 0;
  for (const CommandEntry& entry : command_list()) width = std::max(width, entry.name.size());
  std::string text;
  for (const CommandEntry& entry : command_list()) {
    if (group.empty() || is_in_group(entry.name, group))
      text += fmt::format("  shoehorn {:<{}}  {}\n", entry.name, width, entry.summary);
  }
  return text;
}

}  // namespace shoehorn
