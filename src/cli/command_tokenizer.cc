#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "arguments/command_options.h"
#include "base/error.h"
#include "base/format.h"
#include "cli/commands.h"
#include "cli/thread_option.h"
#include "data/line_reader.h"
#include "data/texts.h"
#include "exec/backend/thread_count.h"
#include "io/json_file.h"
#include "tokenize/tokenizer.h"

namespace shoehorn {

namespace {

constexpr const char* kUsage =
    R"(Texts to token ids and back, by the tokenizer of a Hugging Face directory; and tokenizers of one's own.

  shoehorn tokenizer encode DIR FILE [--json_lines] [--offsets]
  shoehorn tokenizer decode DIR FILE [--json_lines] [--keep_special_tokens]
  shoehorn tokenizer train --output_dir DIR --vocab_size N [FLAGS] FILE …

encode prints a JSON array of ids for each line of FILE, with the special tokens that the tokenizer puts around a
text; decode prints the text of each such array. A line is what training reads as one, without its end (LF, CRLF or
CR); a byte order mark at the beginning of FILE is left out. FILE may be compressed (.gz, .zst), or - for standard
input. train learns a byte-level BPE tokenizer from texts; shoehorn tokenizer train --help lists its flags.
)";

const std::vector<ArgumentSpec>& tokenizer_option_rows() {
  using enum ArgumentKind;
  static const std::vector<ArgumentSpec> rows = {
      {.name = "json_lines",
       .kind = kFlag,
       .standard = false,
       .help = "texts are JSON strings, one a line, so that they can have line ends in them"},
      {.name = "offsets",
       .kind = kFlag,
       .standard = false,
       .help =
           "encode prints {\"ids\": [...], \"offsets\": [[begin, end], ...]}: where each token stands in its "
           "text, in characters; [0, 0] for the special tokens around it"},
      {.name = "keep_special_tokens",
       .kind = kFlag,
       .standard = false,
       .help = "decode writes special tokens too"},
      num_threads_row(),
  };
  return rows;
}

// Lines that are tokenized at a time, by all threads.
constexpr int64_t kLinesAtATime = 8192;

struct TokenizerCommand {
  std::string action;
  std::vector<std::string> paths;  // DIR and FILE
  bool json = false;
  bool offsets = false;
  bool keep_special_tokens = false;
};

TokenizerCommand parse_words(const std::vector<std::string>& words) {
  const CommandOptions given = parse_options(tokenizer_option_rows(), words, OtherWords::kWords);
  use_given_threads(given);
  TokenizerCommand command;
  command.action = given.rest.empty() ? "" : given.rest[0];
  if (command.action != "encode" && command.action != "decode") {
    throw user_error("[tokenizer] expected encode, decode or train, got {}{}; see shoehorn tokenizer --help",
                     given.rest.empty() ? "nothing" : fmt::format("'{}'", command.action),
                     did_you_mean(nearest_name(command.action, {"encode", "decode", "train"})));
  }
  const bool encodes = command.action == "encode";
  const std::string of_the_other = encodes ? "keep_special_tokens" : "offsets";
  if (given.is_given(of_the_other)) {
    throw user_error("[tokenizer {}] expected --json_lines, --num_threads or {}, got '--{}'", command.action,
                     encodes ? "--offsets" : "--keep_special_tokens", of_the_other);
  }
  command.paths.assign(given.rest.begin() + 1, given.rest.end());
  command.json = given.flag("json_lines");
  command.offsets = given.flag("offsets");
  command.keep_special_tokens = given.flag("keep_special_tokens");
  if (command.paths.size() != 2)
    throw user_error(
        "[tokenizer {}] expected a directory and a file, got {} words; see shoehorn tokenizer --help",
        command.action, command.paths.size());
  return command;
}

void print_text(const std::string& text, bool json) {
  if (json)
    fmt::print("{}", format_json(nlohmann::json(text), {.indent = -1, .ensure_ascii = false}));
  else
    fmt::print("{}\n", text);
}

void print_with_offsets(const EncodingWithOffsets& encoded) {
  fmt::print(R"({{"ids": [{}], "offsets": [)", fmt::join(encoded.encoding.input_ids, ", "));
  const char* separator = "";
  for (const TextRange& offsets : encoded.offsets) {
    fmt::print("{}[{}, {}]", separator, offsets.begin, offsets.end);
    separator = ", ";
  }
  fmt::print("]}}\n");
}

// A line of JSON, and what errors call it.
class JsonLine {
 public:
  JsonLine(const std::string& line, const LineReader& reader)
      : line_(line), where_(fmt::format("{}:{}", reader.source(), reader.line_number())) {}

  std::string text() const {
    const nlohmann::json value = parse_json(line_, where_);
    if (!value.is_string())
      throw user_error("[{}] expected a JSON string, got {}", where_, shorten(line_, 80));
    return value.get<std::string>();
  }

  std::vector<int32_t> ids(int64_t vocab_size) const {
    const nlohmann::json value = parse_json(line_, where_);
    std::vector<int32_t> ids;
    bool is_array = value.is_array();
    for (size_t i = 0; is_array && i < value.size(); ++i) {
      const std::optional<int64_t> id = whole_number(value[i]);
      is_array = id && *id >= 0;
      if (is_array && *id >= vocab_size) {
        throw user_error("[{}] expected token ids of 0..{}, got {}; is this the tokenizer of the model?",
                         where_, vocab_size - 1, *id);
      }
      if (is_array) ids.push_back(static_cast<int32_t>(*id));
    }
    if (!is_array)
      throw user_error("[{}] expected a JSON array of token ids, got {}", where_, shorten(line_, 80));
    return ids;
  }

 private:
  const std::string& line_;
  std::string where_;
};

void print_encodings(const Tokenizer& tokenizer, bool offsets, std::span<const std::string_view> texts) {
  if (offsets) {
    for (const std::string_view text : texts)
      print_with_offsets(tokenizer.encode_with_offsets({text, std::nullopt}));
    return;
  }
  std::vector<TextPair> pairs;
  for (const std::string_view text : texts) pairs.push_back({text, std::nullopt});
  for (const Encoding& encoding : tokenizer.encode_batch(pairs, kNoTruncation, thread_count().threads))
    fmt::print("[{}]\n", fmt::join(encoding.input_ids, ", "));
}

void encode_json_lines(const Tokenizer& tokenizer, bool offsets, LineReader& reader) {
  std::vector<std::string> texts;
  const auto hand_on = [&] {
    print_encodings(tokenizer, offsets, std::vector<std::string_view>(texts.begin(), texts.end()));
    texts.clear();
  };
  for (std::string line; reader.next(line);) {
    texts.push_back(JsonLine(line, reader).text());
    if (std::ssize(texts) == kLinesAtATime) hand_on();
  }
  hand_on();
}

void decode_lines(const Tokenizer& tokenizer, const TokenizerCommand& command, LineReader& reader) {
  for (std::string line; reader.next(line);) {
    const std::vector<int32_t> ids = JsonLine(line, reader).ids(tokenizer.vocab_size());
    print_text(tokenizer.decode(ids, !command.keep_special_tokens), command.json);
  }
}

}  // namespace

CommandHelp help_of_tokenizer() {
  return {.name = "tokenizer", .introduction = kUsage, .own_rows = tokenizer_option_rows()};
}

int run_tokenizer(const std::vector<std::string>& words) {
  const TokenizerCommand command = parse_words(words);
  const auto tokenizer = Tokenizer::load(command.paths[0]);
  const std::string& path = command.paths[1];
  const TextOptions options{.keep_linebreaks = false};
  if (command.action == "encode" && !command.json) {
    read_text_lines(path, options, kLinesAtATime, [&](std::span<const std::string_view> texts) {
      print_encodings(*tokenizer, command.offsets, texts);
    });
    return 0;
  }
  LineReader reader(path, options.table.max_record_bytes);
  if (command.action == "encode")
    encode_json_lines(*tokenizer, command.offsets, reader);
  else
    decode_lines(*tokenizer, command, reader);
  return 0;
}

}  // namespace shoehorn
