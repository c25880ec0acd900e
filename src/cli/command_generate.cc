#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arguments/block_arguments.h"
#include "arguments/command_options.h"
#include "arguments/training_arguments.h"
#include "base/error.h"
#include "base/format.h"
#include "base/stop_request.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/growing_text.h"
#include "cli/model_source.h"
#include "cli/notice_printer.h"
#include "cli/output_lines.h"
#include "cli/stage_line.h"
#include "cli/thread_option.h"
#include "generate/end_tokens.h"
#include "generate/text_generator.h"
#include "io/input_stream.h"
#include "tokenize/tokenizer.h"

namespace shoehorn {

namespace {

constexpr int64_t kMaxPromptBytes = int64_t{64} << 20;  // far above any model's positions

const std::vector<ArgumentSpec>& generate_option_rows() {
  using enum ArgumentKind;
  using enum ArgumentStatus;
  static const std::vector<ArgumentSpec> rows = {
      {.name = "model_name_or_path",
       .kind = kText,
       .standard = std::string(),
       .value = "DIR",
       .help = "directory of a language model with its tokenizer, or of an adapter",
       .aliases = {"model"}},
      {.name = "prompt",
       .kind = kText,
       .standard = std::string(),
       .help = "the text to go on with; -: standard input"},
      {.name = "max_new_tokens",
       .kind = kInteger,
       .standard = int64_t{100},
       .help = "the most tokens of a text"},
      {.name = "num_return_sequences", .kind = kInteger, .standard = int64_t{1}, .help = "how many texts"},
      {.name = "do_sample",
       .kind = kFlag,
       .standard = true,
       .help = "draw each token; --no_do_sample: take the most likely one"},
      {.name = "temperature",
       .kind = kNumber,
       .standard = 1.0,
       .help = "of the draw: lower is more likely text"},
      {.name = "top_k",
       .kind = kInteger,
       .standard = int64_t{50},
       .help = "draw among so many tokens; 0: all"},
      {.name = "top_p",
       .kind = kNumber,
       .standard = 1.0,
       .help = "draw among the most likely tokens that have this share together"},
      {.name = "seed",
       .kind = kInteger,
       .standard = int64_t{42},
       .help = "the same seed gives the same texts"},
      num_threads_row(),
      {.name = "json", .kind = kFlag, .standard = false, .help = "a JSON object a text, with the token ids"},
      {.name = "max_length",
       .kind = kInteger,
       .status = kElsewhere,
       .why = "transformers, where it counts the prompt too; give --max_new_tokens"},
      {.name = "length",
       .kind = kInteger,
       .status = kElsewhere,
       .why = "run_generation; give --max_new_tokens"},
      {.name = "num_beams",
       .kind = kInteger,
       .standard = int64_t{1},
       .status = kNotYet,
       .why =
           "each text goes on with one token at a time: a drawn one, or with --no_do_sample the most likely"},
      {.name = "repetition_penalty",
       .kind = kNumber,
       .standard = 1.0,
       .status = kNotYet,
       .why = "--temperature, --top_k and --top_p shape the draw"}};
  return rows;
}

// The prompt as it is given, or all of standard input but the end of its last line; bytes that are no UTF-8 become U+FFFD.
std::string read_prompt(const std::string& given) {
  if (!is_standard_input(given)) return given;
  std::string text;
  const std::unique_ptr<InputStream> input = open_input(given);
  std::array<std::byte, 4096> piece;
  while (const size_t bytes = input->read(piece)) {
    if (text.size() + bytes > kMaxPromptBytes)
      throw user_error("[--prompt -] expected at most {}, got more", format_bytes(kMaxPromptBytes));
    text.append(reinterpret_cast<const char*>(piece.data()), bytes);
  }
  text = replace_invalid_utf8(text);
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

// Whether a text ended because the model has no more positions.
bool is_cut_at(int64_t positions, std::span<const int32_t> prompt, std::span<const int32_t> tokens,
               const GenerationOptions& options) {
  const bool is_ended =
      std::ssize(tokens) == options.max_new_tokens ||
      (!tokens.empty() && std::ranges::find(options.end_tokens, tokens.back()) != options.end_tokens.end());
  return !is_ended && std::ssize(prompt) + std::ssize(tokens) == positions;
}

// Tables of embeddings may have more rows than the tokenizer has tokens: as in transformers, those rows are no text.
std::string decode_known(const Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  std::vector<int32_t> known;
  std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(known),
               [&](int32_t token) { return token < tokenizer.vocab_size(); });
  return tokenizer.decode(known);
}

// The prompt and the text behind it, as it is written; what there is of it where a stop is requested.
std::vector<int32_t> show_generated(TextGenerator& generator, const Tokenizer& tokenizer,
                                    const std::string& prompt, std::span<const int32_t> prompt_tokens,
                                    const GenerationOptions& options, int64_t number) {
  GrowingText growing(
      [&](std::span<const int32_t> tokens) { return prompt + decode_known(tokenizer, tokens); },
      [](const std::string& text) { print_flushed(stdout, text); });
  try {
    std::vector<int32_t> tokens =
        generator.generate(prompt_tokens, options, number, [&](int32_t token) { growing.add(token); });
    growing.finish();
    print_flushed(stdout, "\n");
    return tokens;
  } catch (const Stopped&) {
    leave_closed_output();
    print_flushed(stdout, "\n");
    throw;
  }
}

}  // namespace

CommandHelp help_of_generate() {
  return {.name = "generate",
          .introduction =
              "Goes on with a text, as a language model was trained to.\n\n"
              "  shoehorn generate --model_name_or_path out --prompt \"Once upon a time\"\n",
          .own_rows = generate_option_rows()};
}

int run_generate(const std::vector<std::string>& words) {
  const CommandOptions given = parse_options(generate_option_rows(), words);
  use_given_threads(given);
  if (given.text("model_name_or_path").empty())
    throw user_error("[--model_name_or_path] expected a language model's directory, got nothing");
  TrainingArguments args;
  args.model_name_or_path = given.text("model_name_or_path");
  args.task = kCausalLanguageModel;
  const ModelSource source = open_trained_model(args);
  const auto tokenizer = Tokenizer::load(source.tokenizer());
  GenerationOptions options{.sampling = {.do_sample = given.flag("do_sample"),
                                         .temperature = given.number("temperature"),
                                         .top_k = given.integer("top_k"),
                                         .top_p = given.number("top_p")},
                            .max_new_tokens = given.integer_at_least("max_new_tokens", 1),
                            .end_tokens = end_tokens_of(source.directory, source.model->vocab_size()),
                            .seed = static_cast<uint64_t>(given.integer("seed"))};
  validate(options.sampling);
  const StopSignals signals;
  const std::string text = read_prompt(given.text("prompt"));
  std::vector<int32_t> prompt = tokenizer->encode(text).input_ids;
  // A model that has learned texts one behind the other begins behind the end of one.
  if (prompt.empty() && !options.end_tokens.empty()) prompt = {options.end_tokens.front()};
  const int64_t positions = source.model->max_positions();
  const int64_t length =
      std::min(positions, std::ssize(prompt) + std::min(positions, options.max_new_tokens));
  const auto notices = notice_printer(args, stderr);
  std::optional<StageLine> stage(std::in_place, "loading the model", TrainingArguments());
  std::vector<std::string> lines;  // shown when the line of the stage is gone
  TextGenerator generator(*source.model,
                          {.weights = source.directory,
                           .adapter = source.adapter,
                           .max_length = length,
                           .on_line = [&](const std::string& line) { lines.push_back(line); }});
  stage.reset();
  for (const std::string& line : lines) {
    if (notices) notices(line);
  }
  const int64_t count = given.integer_at_least("num_return_sequences", 1);
  bool is_cut = false;
  for (int64_t number = 0; number < count; ++number) {
    std::vector<int32_t> tokens;
    if (given.flag("json")) {
      tokens = generator.generate(prompt, options, number);
      const nlohmann::ordered_json line = {
          {"prompt", text}, {"text", decode_known(*tokenizer, tokens)}, {"ids", tokens}};
      print_flushed(stdout, line.dump() + "\n");
    } else {
      if (number > 0) print_flushed(stdout, "\n");
      tokens = show_generated(generator, *tokenizer, text, prompt, options, number);
    }
    is_cut |= is_cut_at(positions, prompt, tokens, options);
  }
  if (is_cut && notices)
    notices(fmt::format("a text ends where the model's {} positions do, before --max_new_tokens", positions));
  return 0;
}

}  // namespace shoehorn
