// Fine-tunes the directory of a language model (GPT-2, Llama, Mistral, Qwen) on a file of texts, saves the result as a model
// directory, and goes on with a text.
//
//   example_fine_tune_decoder MODEL_DIR TEXT_FILE OUTPUT_DIR PROMPT
#include <algorithm>
#include <cstdio>
#include <exception>

#include "shoehorn.h"

using namespace shoehorn;

namespace {

void fine_tune(const Model& model, const Tokenizer& tokenizer, const char* directory, const char* text_file,
               const char* output_dir) {
  TrainingArguments args;
  args.output_dir = output_dir;
  args.train_file = text_file;  // the first 5 percent of its texts are held out
  args.save_strategy = "no";
  LanguageData data =
      load_language_data(args, {.tokenizer = tokenizer,
                                .model = {.max_positions = model.max_positions(),
                                          .max_position_embeddings = model.max_position_embeddings(),
                                          .vocab_size = model.vocab_size()}});
  std::printf("%s%s", data.summary.c_str(), data.notices.c_str());

  Trainer trainer(model, args, std::move(data.train.dataset), std::move(data.validation.dataset),
                  {.companions = list_companions(directory)});
  print_summary(trainer.train());
  std::printf("%s", format_metrics("eval", trainer.evaluate()).c_str());
  trainer.save_model(output_dir);
}

// The text with at most 40 tokens behind it, each the one that the model finds most likely.
std::string go_on(const Model& model, const Tokenizer& tokenizer, const char* weights,
                  const std::string& text) {
  const std::vector<int32_t> prompt = tokenizer.encode(text).input_ids;
  GenerationOptions options;
  options.max_new_tokens = 40;
  options.end_tokens = end_tokens_of(weights, model.vocab_size());
  const int64_t length = std::min(model.max_positions(), std::ssize(prompt) + options.max_new_tokens);
  TextGenerator generator(model, {.weights = weights, .max_length = length});
  return text + tokenizer.decode(generator.generate(prompt, options));
}

void run(const char* directory, const char* text_file, const char* output_dir, const char* prompt) {
  const auto tokenizer = Tokenizer::load(directory);
  const std::unique_ptr<Model> model = AutoModelForCausalLM::from_pretrained(directory);
  fine_tune(*model, *tokenizer, directory, text_file, output_dir);
  std::printf("%s\n", go_on(*model, *tokenizer, output_dir, prompt).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 5) {
      throw user_error(
          "[example_fine_tune_decoder] expected MODEL_DIR TEXT_FILE OUTPUT_DIR PROMPT, got {} words",
          argc - 1);
    }
    run(argv[1], argv[2], argv[3], argv[4]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
