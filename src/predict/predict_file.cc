#include "predict/predict_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/step_profile.h"
#include "base/error.h"
#include "base/format.h"
#include "base/process.h"
#include "base/rounding.h"
#include "base/stop_request.h"
#include "data/data_files.h"
#include "data/load_dataset.h"
#include "exec/backend/thread_count.h"
#include "predict/scored_labels.h"
#include "train/results.h"
#include "train/text_data.h"

namespace shoehorn {

namespace {

// Thrown to end the reading where enough rows were read.
struct EnoughRows {};

constexpr size_t kWrittenAtOnceBytes = size_t{64} << 10;

// Of the cells of a part. A part with longer rows ends after the batch that reaches this.
constexpr int64_t kPartBytes = int64_t{4} << 20;

// Of a token of a part, at most: its id and type in an encoding, and in a data set that grows by doubling.
constexpr int64_t kBytesPerToken = 24;

const Column& column_of(const Table& table, int64_t column) {
  return table.columns[static_cast<size_t>(column)];
}

const std::string& name_of(const Table& table, int64_t column) {
  return table.column_names[static_cast<size_t>(column)];
}

// "csv", "tsv", "txt" or "jsonl"; nothing where no name is given.
std::optional<DataFormat> format_named(const std::string& name) {
  if (name.empty()) return std::nullopt;
  if (name == "csv") return DataFormat::kCommas;
  if (name == "txt") return DataFormat::kText;
  return name == "tsv" ? DataFormat::kTabs : DataFormat::kObjects;
}

class FilePredictor {
 public:
  FilePredictor(const Model& model, const TrainingArguments& args, const Tokenizer& tokenizer,
                PredictionFormat format, PredictionOutput* output, const PredictFileOptions& options)
      : model_(model),
        args_(args),
        format_(format),
        output_(output),
        options_(options),
        tokenize_(tokenize_with(tokenizer, args.max_seq_length, thread_count().threads)),
        limits_(round_up(options.rows_at_once, batch_of_ranks())),
        most_rows_(args.max_predict_samples.value_or(std::numeric_limits<int64_t>::max())),
        labels_(model.task().label_map(), !args.label_column_name.empty(), options.predictor.on_line),
        start_seconds_(now_seconds()) {
    limits_.bytes = kPartBytes;
    limits_.row_multiple = batch_of_ranks();
  }

  PredictedFile run() {
    PredictedFile result;
    try {
      result.invalid_utf8 = read_table_in_pieces(find_data_files("--test_file", args_.test_file),
                                                 {.format = format_named(args_.test_file_format)}, limits_,
                                                 [&](const Table& part) { take(part); });
    } catch (const EnoughRows&) {
    }
    const EvaluationResult evaluated = predictor_->finish();
    result.metrics = metrics_of(evaluated);
    if (labels_.are_whole() && !args_.prediction_loss_only && evaluated.score->total() > 0)
      result.details = evaluated.score->details(model_.task().label_map().names);
    result.rows = rows_;
    result.is_scored = labels_.are_whole();
    result.labels_are_ids = labels_.are_ids();
    result.text_columns = text_names_;
    result.label_columns = label_names_;
    result.longest_rows = longest_rows_;
    result.nonfinite_rows = nonfinite_rows_;
    return result;
  }

 private:
  // What the ranks predict at a time.
  int64_t batch_of_ranks() const {
    const auto& ranks = options_.predictor.ranks;
    return args_.per_device_eval_batch_size * (ranks ? ranks->size() : 1);
  }

  void take(const Table& part) {
    if (!options_.predictor.ranks) throw_if_stop_requested();
    if (rows_ + part.rows() < most_rows_) return predict(part);
    Table last = part;
    const int64_t wanted = most_rows_ - rows_;
    for (Column& column : last.columns) column.truncate(wanted);
    last.row_lines.resize(static_cast<size_t>(wanted));
    predict(last);
    throw EnoughRows();
  }

  void predict(const Table& part) {
    if (!predictor_) find_columns(part);
    const Dataset samples = samples_of(part);
    if (!predictor_) make_predictor(samples, part.text_bytes());
    int64_t row = 0;
    predictor_->predict(samples, [&](std::span<const float> outputs) {
      const auto width = static_cast<size_t>(model_.task().num_labels());
      for (; !outputs.empty(); outputs = outputs.subspan(width)) write_row(part, row++, outputs.first(width));
      if (options_.on_progress) options_.on_progress({.rows = rows_ + row, .seconds = seconds()});
      if (text_.size() >= kWrittenAtOnceBytes) write_text();
    });
    rows_ += part.rows();
    write_text();
  }

  // Names them, so that each part has the same ones.
  void find_columns(const Table& part) {
    columns_ = options_.trained_columns;
    columns_.label_column_name = args_.label_column_name;
    columns_.text_column_names = text_columns_of(args_);
    PredictionFields fields{
        .id_column = args_.id_column, .top_k = args_.top_k.value_or(0), .logits = args_.logits};
    if (!args_.id_column.empty()) find_id_column(part);
    const TextColumns found = find_text_columns(part, columns_);
    texts_ = {found.text};
    if (found.pair >= 0) texts_.push_back(found.pair);
    for (const int64_t column : texts_) text_names_.push_back(name_of(part, column));
    if (args_.write_texts) fields.text_columns = text_names_;
    label_columns_ = found.labels;
    for (const int64_t column : label_columns_) label_names_.push_back(name_of(part, column));
    writer_ = make_prediction_writer(format_, model_.task(), std::move(fields));
    writer_->append_header(text_);
  }

  // Ids are words in many files: their column is none of texts unless it is named so.
  void find_id_column(const Table& part) {
    id_ = part.find_column(args_.id_column);
    if (id_ < 0) {
      const std::string nearest = nearest_name(args_.id_column, part.column_names);
      throw user_error("[--id_column] expected a column of {}, got '{}'; {}it has: {}", part.source,
                       args_.id_column, nearest.empty() ? "" : fmt::format("did you mean '{}'? ", nearest),
                       fmt::join(part.column_names, ", "));
    }
    if (!columns_.text_column_names.empty()) return;
    Table others = part;
    others.columns.erase(others.columns.begin() + id_);
    others.column_names.erase(others.column_names.begin() + id_);
    const TextColumns found = find_text_columns(others, columns_);
    columns_.text_column_names = {name_of(others, found.text)};
    if (found.pair >= 0) columns_.text_column_names.push_back(name_of(others, found.pair));
  }

  Dataset samples_of(const Table& part) {
    for (const int64_t column : texts_) check_are_texts(part, column);
    const Column& texts = column_of(part, texts_[0]);
    const Column* const pairs = texts_.size() > 1 ? &column_of(part, texts_[1]) : nullptr;
    std::vector<TextExample> examples;
    for (int64_t row = 0; row < part.rows(); ++row) {
      examples.push_back(
          {texts.text(row), pairs != nullptr ? pairs->text(row) : std::string_view(), pairs != nullptr});
    }
    DatasetBuilder builder;
    for (const TokenizedExample& example : tokenize_(examples)) {
      longest_rows_ += std::ssize(example.input_ids) == args_.max_seq_length;
      builder.add(example.input_ids, example.token_type_ids);
    }
    labels_.add(part, label_columns_, builder);
    return builder.finish();
  }

  // A first part that is not full is the whole file, and nothing longer comes. `first_bytes`: those of its cells.
  void make_predictor(const Dataset& first, int64_t first_bytes) {
    const double start = now_seconds();
    PredictorOptions options = options_.predictor;
    const bool is_whole = first.size() < limits_.rows && first_bytes < limits_.bytes;
    const int64_t batch = args_.per_device_eval_batch_size;
    if (!is_whole) {
      options.caller_bytes = std::max<int64_t>(0, limits_.bytes - first_bytes) +
                             limits_.rows * args_.max_seq_length * kBytesPerToken;
    }
    predictor_.emplace(
        model_, args_,
        is_whole ? first : Dataset::alike(batch, args_.max_seq_length, model_.task().label_shape()),
        std::move(options));
    predictor_->prepare();
    start_seconds_ += now_seconds() - start;
  }

  void write_row(const Table& part, int64_t row, std::span<const float> outputs) {
    nonfinite_rows_ +=
        std::ranges::all_of(outputs, [](float output) { return std::isfinite(output); }) ? 0 : 1;
    cells_.clear();
    if (args_.write_texts) {
      for (const int64_t column : texts_) cells_.push_back(column_of(part, column).text(row));
    }
    PredictedRow predicted{.index = rows_ + row, .texts = cells_, .outputs = outputs};
    if (id_ >= 0) {
      predicted.id = column_of(part, id_).text(row);
      if (part.has_types) predicted.id_kind = column_of(part, id_).kind(row);
    }
    writer_->append_row(predicted, text_);
  }

  void write_text() {
    if (output_ != nullptr) output_->write(text_);
    text_.clear();
  }

  double seconds() const { return now_seconds() - start_seconds_; }

  Metrics metrics_of(const EvaluationResult& result) const {
    Metrics metrics;
    if (labels_.are_whole()) metrics = evaluation_metrics(result, args_.prediction_loss_only, "predict_");
    for (const auto& [name, value] : speed_metrics("predict", seconds(), result.samples, result.batches))
      metrics[name] = value;
    metrics["predict_samples"] = result.samples;
    metrics["predict_memory_arena_predicted_bytes"] = predictor_->forecast().arena_bytes();
    metrics["predict_memory_arena_measured_bytes"] = predictor_->resident_arena_bytes();
    metrics["predict_memory_process_predicted_bytes"] = predictor_->forecast().process_peak_bytes();
    metrics["predict_memory_process_measured_bytes"] = process_peak_bytes();
    return metrics;
  }

  const Model& model_;
  const TrainingArguments& args_;
  PredictionFormat format_;
  PredictionOutput* output_;
  const PredictFileOptions& options_;
  TokenizeFunction tokenize_;
  PieceLimits limits_;
  int64_t most_rows_;
  ScoredLabels labels_;
  double start_seconds_;
  ColumnOptions columns_;
  int64_t id_ = -1;
  std::vector<int64_t> texts_, label_columns_;
  std::vector<std::string> text_names_, label_names_;
  int64_t longest_rows_ = 0;
  int64_t nonfinite_rows_ = 0;
  std::unique_ptr<PredictionWriter> writer_;
  std::optional<Predictor> predictor_;
  int64_t rows_ = 0;
  std::vector<std::string_view> cells_;  // of the row under way
  std::string text_;                     // not written yet
};

}  // namespace

PredictedFile predict_file(const Model& model, const TrainingArguments& args, const Tokenizer& tokenizer,
                           PredictionFormat format, PredictionOutput* output,
                           const PredictFileOptions& options) {
  return FilePredictor(model, args, tokenizer, format, output, options).run();
}

}  // namespace shoehorn
