// `shoehorn tokenizer train`.
#include <nlohmann/json.hpp>

#include "cli_support.h"
#include "io/compress_testing.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

class CliTokenizerTrain : public CliTest {
 protected:
  CliTokenizerTrain() { directory_.write("prose.txt", prose_); }

  std::vector<std::string> train_tokenizer_words(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"tokenizer", "train", "--output_dir", output(), "--vocab_size", "290"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  ProgramRun succeed(const std::vector<std::string>& more) const {
    ProgramRun result = run(train_tokenizer_words(more));
    EXPECT_EQ(result.exit_code, 0) << result.output << result.error;
    return result;
  }
  std::string tokenizer_file() const { return read_text_file(output() / "tokenizer.json"); }

  const std::string prose_ =
      "The ferry leaves the harbour at seven, and the ferry returns.\nNobody leaves the ferry before the harbour.\n"
      "The other ferry leaves when the lamps along the harbour are lit, and the lamps are lit at seven.\n";
};

TEST_F(CliTokenizerTrain, WritesATokenizerThatTheOtherCommandsRead) {
  const ProgramRun trained = succeed({path("prose.txt")});
  EXPECT_TRUE(contains(trained.output, "Tokenizer of 290 tokens in " + output().string() +
                                           ": 1 special, 256 bytes, 33 merges\n"));
  EXPECT_TRUE(contains(trained.output, "of text from 1 file: "));
  EXPECT_EQ(written(), (std::vector<std::string>{"tokenizer.json", "tokenizer_config.json"}));
  const nlohmann::json config = read_json(output() / "tokenizer_config.json");
  for (const char* role : {"bos_token", "eos_token", "unk_token"}) EXPECT_EQ(config[role], "<|endoftext|>");
  const ProgramRun encoded = run({"tokenizer", "encode", output(), path("prose.txt")});
  ASSERT_EQ(encoded.exit_code, 0) << encoded.error;
  EXPECT_LT(std::ranges::count(encoded.output, ','), std::ssize(prose_) / 2);
  directory_.write("ids.txt", encoded.output);
  EXPECT_EQ(run({"tokenizer", "decode", output(), path("ids.txt")}).output, prose_);
}

TEST_F(CliTokenizerTrain, Flags) {
  const ProgramRun trained =
      succeed({"--special_tokens", "<s>,</s>,<pad>", "--bos_token", "<s>", "--eos_token", "</s>",
               "--pad_token", "<pad>", "--model_max_length", "128", "--pre_tokenizer", "qwen2",
               "--normalizer", "nfc", "--min_frequency", "3", "--json", path("prose.txt")});
  const nlohmann::json result = parse_json(trained.output, "output");
  EXPECT_EQ(result["special_tokens"], (nlohmann::json{"<s>", "</s>", "<pad>"}));
  EXPECT_LT(result["vocab_size"], 290) << "not so many pairs occur three times";
  EXPECT_EQ(result["text_bytes"], prose_.size());
  const nlohmann::json config = read_json(output() / "tokenizer_config.json");
  EXPECT_EQ(config["pad_token"], "<pad>");
  EXPECT_EQ(config["model_max_length"], 128);
  EXPECT_FALSE(config.contains("unk_token"));
  const nlohmann::json file = read_json(output() / "tokenizer.json");
  EXPECT_EQ(file["normalizer"]["type"], "NFC");
  EXPECT_EQ(file["pre_tokenizer"]["type"], "Sequence");
  EXPECT_EQ(file["model"]["vocab"]["</s>"], 1);

  EXPECT_TRUE(contains(succeed({"--overwrite_output_dir", "--min_frequency", "3", path("prose.txt")}).output,
                       "no other pair occurs 3 times"));
  succeed({"--overwrite_output_dir", "--initial_alphabet", "texts", "--limit_alphabet", "10",
           "--special_tokens", "", path("prose.txt")});
  const nlohmann::json few = read_json(output() / "tokenizer.json");
  EXPECT_TRUE(few["added_tokens"].empty());
  EXPECT_FALSE(few["model"]["vocab"].contains("T")) << "not among the ten most frequent";
}

// Rows of tables are texts like lines of a text file, but without their ends.
TEST_F(CliTokenizerTrain, ReadsColumnsOfTables) {
  directory_.write("a.csv", "label,text\n1,the ferry\n0,\n0,the lamps\n");
  directory_.write("b.jsonl",
                   "{\"body\": \"the ferry\", \"url\": \"x\"}\n{\"body\": \"the lamps\", \"url\": \"y\"}\n");
  directory_.write("c.tsv", "line\nthe ferry\nthe lamps\n");
  succeed({path("a.csv")});
  const std::string expected = tokenizer_file();
  succeed({"--overwrite_output_dir", path("c.tsv")});
  EXPECT_EQ(tokenizer_file(), expected);
  succeed({"--overwrite_output_dir", "--text_column_name", "body", path("b.jsonl")});
  EXPECT_EQ(tokenizer_file(), expected);
  directory_.write("D.CSV", read_text_file(path("a.csv")));
  succeed({"--overwrite_output_dir", path("D.CSV")});
  EXPECT_EQ(tokenizer_file(), expected) << "the name's case does not count";
}

// A table trains a tokenizer if it trains a model, and else both say the same.
TEST_F(CliTokenizerTrain, ReadsRowsAsTrainingDoes) {
  succeed({path("prose.txt"), "--output_dir", path("tokenizer").string()});
  directory_.write("lines.csv", "text\nthe ferry\nthe lamps\n");
  succeed({path("lines.csv")});
  const std::string expected = tokenizer_file();
  struct Case {
    const char* name;
    const char* rows;
    std::vector<std::string> column = {};
    const char* refusal = "";
  };
  const std::vector<Case> cases = {
      {"metadata.jsonl",
       R"({"text": "the ferry", "meta": {"id": 1}}
{"text": "the lamps", "source": ["b"], "meta": [{"id": 2}]}
{"meta": null, "text": null}
)"},
      {"first.jsonl", R"({"body": "the ferry", "title": "a"}
{"body": "the lamps", "title": "b"}
)"},
      {"named.tsv", "text\tbody\nx\tthe ferry\ny\tthe lamps\n", {"--text_column_names", "body"}},
      {"list.jsonl",
       "{\"text\": \"the ferry\"}\n{\"text\": [\"the lamps\"]}\n",
       {},
       "list.jsonl:2] expected a text in column 'text', got a list"},
      {"lists.jsonl",
       R"({"text": ["the ferry", "the lamps"]})",
       {},
       "expected texts in column 'text', got none"},
      {"absent.jsonl",
       "{\"text\": \"the ferry\"}\n{\"body\": \"the lamps\"}\n",
       {},
       "absent.jsonl:2] expected a text in column 'text', got a row without this key"},
      {"numbers.csv",
       "id,body\n1,the ferry\n",
       {},
       "expected texts in column 'id', got none; name another one with text_column_names"},
      {"mistyped.csv",
       "id,body\n1,the ferry\n",
       {"--text_column_names", "bodi"},
       "did you mean 'body'? it has: id, body"},
  };
  for (const Case& table : cases) {
    SCOPED_TRACE(table.name);
    directory_.write(table.name, table.rows);
    std::vector<std::string> tokenizer_words =
        train_tokenizer_words({"--overwrite_output_dir", path(table.name)});
    std::vector<std::string> model_words = {"train",
                                            "--model_type",
                                            "gpt2",
                                            "--config_overrides",
                                            "n_layer=1,n_head=2,n_embd=32,n_positions=16,vocab_size=290",
                                            "--tokenizer_name",
                                            path("tokenizer").string(),
                                            "--train_file",
                                            path(table.name).string(),
                                            "--max_steps",
                                            "1",
                                            "--save_strategy",
                                            "no",
                                            "--overwrite_output_dir",
                                            "--output_dir",
                                            path("model_of_rows").string()};
    tokenizer_words.insert(tokenizer_words.end(), table.column.begin(), table.column.end());
    model_words.insert(model_words.end(), table.column.begin(), table.column.end());
    const ProgramRun of_tokenizer = run(tokenizer_words);
    const ProgramRun of_model = run(model_words);
    const bool is_refused = *table.refusal != '\0';
    EXPECT_EQ(of_model.exit_code, is_refused ? 2 : 0) << of_model.error;
    EXPECT_EQ(of_tokenizer.exit_code, of_model.exit_code) << of_tokenizer.error;
    if (is_refused) {
      EXPECT_TRUE(contains(of_tokenizer.error, table.refusal));
      EXPECT_EQ(of_tokenizer.error, of_model.error);
    } else {
      EXPECT_EQ(tokenizer_file(), expected);
    }
  }
}

TEST_F(CliTokenizerTrain, ReadsCompressedFiles) {
  succeed({path("prose.txt")});
  const std::string expected = tokenizer_file();
  directory_.write("prose.txt.gz", gzip(read_text_file(path("prose.txt"))));
  succeed({"--overwrite_output_dir", "--num_threads", "1", path("prose.txt.gz")});
  EXPECT_EQ(tokenizer_file(), expected);
  directory_.write("a.csv", "text\nthe ferry\nthe lamps\n");
  succeed({"--overwrite_output_dir", path("a.csv")});
  const std::string of_rows = tokenizer_file();
  directory_.write("a.csv.zst", zstandard(read_text_file(path("a.csv"))));
  succeed({"--overwrite_output_dir", path("a.csv.zst")});
  EXPECT_EQ(tokenizer_file(), of_rows);
}

TEST_F(CliTokenizerTrain, CountsIllFormedText) {
  directory_.write("bad.txt", "the \xff ferry\xe2\x82\nthe ferry\n");
  EXPECT_TRUE(contains(succeed({path("bad.txt"), path("prose.txt")}).output,
                       "2 ill-formed stretches of UTF-8 read as U+FFFD"));
}

TEST_F(CliTokenizerTrain, ADirectoryWithATokenizerIsKept) {
  succeed({path("prose.txt")});
  const std::string before = tokenizer_file();
  directory_.write("other.txt", "something else, something else");
  expect_failure(
      train_tokenizer_words({path("other.txt")}), 2,
      {"without a tokenizer, got tokenizer.json, tokenizer_config.json", "--overwrite_output_dir"});
  EXPECT_EQ(tokenizer_file(), before);
  succeed({path("other.txt"), "--overwrite_output_dir"});
  EXPECT_NE(tokenizer_file(), before);
}

TEST_F(CliTokenizerTrain, Refusals) {
  directory_.write("empty.txt", "");
  const std::string file = path("prose.txt");
  const auto refuse = [&](const std::vector<std::string>& more, const std::vector<std::string>& parts) {
    expect_failure(train_tokenizer_words(more), 2, parts);
  };
  refuse({}, {"expected files of text, got none"});
  refuse({path("empty.txt")}, {"expected text to train on"});
  refuse({file, path("absent.txt")}, {"absent.txt"});
  refuse({file, "--vocab_size", "256"}, {"expected 257 or more", "got 256"});
  refuse({file, "--special_tokens", "<s>,<s>"}, {"'<s>' twice"});
  refuse({file, "--special_tokens", "<s>,"}, {"at least one character"});
  refuse({file, "--eos_token", "</s>"}, {"[--eos_token]", "got '</s>'", "--special_tokens"});
  refuse({file, "--pre_tokenizer", "gpt4"}, {"--pre_tokenizer", "gpt4"});
  refuse({file, "--limit_alphabet", "9"}, {"--limit_alphabet", "--initial_alphabet"});
  refuse({file, "--num_threads", "0"}, {"[--num_threads] expected 1 or more, got 0"});
  refuse({file, "--num_threads", "65537"}, {"[--num_threads] expected at most 65536, got 65537"});
  refuse({file, "--min_frequencies", "9"}, {"'min_frequencies'", "did you mean --min_frequency?"});
  EXPECT_TRUE(written().empty());
  expect_failure({"tokenizer", "train", "--output_dir", output(), file}, 2,
                 {"[--vocab_size]", "got nothing"});
  expect_failure({"tokenizer", "train", "--vocab_size", "300", file}, 2, {"[--output_dir]", "got nothing"});
  const std::string help = run({"tokenizer", "train", "--help"}).output;
  EXPECT_TRUE(contains(help, "shoehorn tokenizer train --output_dir DIR --vocab_size N"));
  EXPECT_TRUE(contains(help, "--limit_alphabet"));
}

}  // namespace
}  // namespace shoehorn
