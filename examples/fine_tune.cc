// Fine-tunes a model directory on a file of labelled texts (csv, tsv or JSON lines), and saves the result as
// a model directory.
//
//   example_fine_tune MODEL_DIR TRAIN_FILE VALIDATION_FILE OUTPUT_DIR
#include <cstdio>
#include <exception>

#include "shoehorn.h"

using namespace shoehorn;

namespace {

void fine_tune(const char* directory, const char* train_file, const char* validation_file,
               const char* output_dir) {
  constexpr int64_t kMaxLength = 64;  // tokens of a text
  const auto tokenizer = Tokenizer::load(directory);
  LoadedDataset train = load_dataset(train_file, *tokenizer, kMaxLength);
  LoadedDataset validation = load_dataset(validation_file, *tokenizer, kMaxLength, {.labels = &train.labels});

  auto model = BertForSequenceClassification::from_pretrained(directory);
  model.set_labels(train.labels);

  TrainingArguments args;
  args.output_dir = output_dir;
  args.save_strategy = "no";
  Trainer trainer(model, args, std::move(train.dataset), std::move(validation.dataset),
                  {.companions = list_companions(directory)});
  print_summary(trainer.train());
  std::printf("%s", format_metrics("eval", trainer.evaluate()).c_str());
  trainer.save_model(output_dir);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 5) {
      throw user_error(
          "[example_fine_tune] expected MODEL_DIR TRAIN_FILE VALIDATION_FILE OUTPUT_DIR, got {} words",
          argc - 1);
    }
    fine_tune(argv[1], argv[2], argv[3], argv[4]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
