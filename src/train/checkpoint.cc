#include "train/checkpoint.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/checkpoint_directory.h"
#include "io/directory_lock.h"
#include "io/file.h"
#include "io/json_file.h"
#include "train/adapter_config.h"
#include "train/adapter_tensors.h"
#include "train/adapter_weights.h"
#include "train/loss_scale_state.h"
#include "train/weights.h"

namespace shoehorn {

namespace {

constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kTrainerStateFile = "trainer_state.json";
constexpr const char* kArgumentsFile = "training_args.json";
constexpr const char* kPositionFile = "shoehorn_state.json";

// What must agree for a resumed run to go on as the interrupted one would have.
nlohmann::json identity_of(const TrainingArguments& args) {
  nlohmann::json identity = {{"seed", args.seed},
                             {"per_device_train_batch_size", args.per_device_train_batch_size},
                             {"gradient_accumulation_steps", args.gradient_accumulation_steps},
                             {"batch_size_ramp", args.batch_size_ramp},
                             {"optim", optimizer_name(args)},
                             {"freeze", args.freeze},
                             {"train_sampling_strategy", args.train_sampling_strategy},
                             {"data_seed", nullptr},
                             {"dataloader_drop_last", args.dataloader_drop_last}};
  if (args.data_seed) identity["data_seed"] = *args.data_seed;
  // Null without adapters, as in checkpoints that do not know them.
  const bool adapts = args.lora_rank > 0;
  identity["lora_rank"] = adapts ? nlohmann::json(args.lora_rank) : nlohmann::json();
  identity["lora_alpha"] = adapts ? nlohmann::json(args.lora_alpha) : nlohmann::json();
  identity["lora_dropout"] = adapts ? nlohmann::json(args.lora_dropout) : nlohmann::json();
  identity["lora_target"] = adapts ? nlohmann::json(args.lora_target) : nlohmann::json();
  identity["lora_modules_to_save"] = adapts ? nlohmann::json(args.lora_modules_to_save) : nlohmann::json();
  return identity;
}

std::string value_text(const nlohmann::json& value) {
  return value.is_null() ? "unset" : value.dump();
}

// Whether a key that a checkpoint lacks says nothing: it is older than the key.
bool may_lack(const std::string& name, const nlohmann::json& value) {
  return value.empty() || name == "data_seed" || name == "dataloader_drop_last";
}

nlohmann::json to_json(const RunPosition& position) {
  return {{"applied_updates", position.applied_updates},   {"skipped_steps", position.skipped_steps},
          {"samples_consumed", position.samples_consumed}, {"loss_since_log", position.loss_since_log},
          {"last_logged_step", position.last_logged_step}, {"loss_total", position.loss_total},
          {"nonfinite_losses", position.nonfinite_losses}, {"training_samples", position.training_samples}};
}

nlohmann::json to_json(const LossScaleValues& values) {
  return {{"scale", values.scale},
          {"applied_in_row", values.applied_in_row},
          {"overflows_to_go", values.overflows_to_go}};
}

nlohmann::json to_json(const PlateauState& plateau) {
  return {{"learning_rate", plateau.learning_rate},
          {"best", plateau.best},
          {"bad_evaluations", plateau.bad_evaluations},
          {"cooldown_left", plateau.cooldown_left}};
}

// The object under `name`; UserError where there is none.
nlohmann::json object_in(const nlohmann::json& parent, const char* name, const std::filesystem::path& file) {
  if (parent.is_object() && parent.contains(name) && parent[name].is_object()) return parent[name];
  throw user_error("[{}] expected an object '{}', got none; is the file shoehorn's?", file.string(), name);
}

template <typename T>
T field(const nlohmann::json& object, const char* name, const std::filesystem::path& file) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number()) {
    throw user_error("[{}: {}] expected a number, got {}", file.string(), name,
                     found == object.end() ? "nothing" : found->dump());
  }
  return found->get<T>();
}

LossScaleValues loss_scale_in(const nlohmann::json& saved, const std::filesystem::path& file) {
  const nlohmann::json values = object_in(saved, "loss_scale", file);
  LossScaleValues scale{.scale = field<float>(values, "scale", file),
                        .applied_in_row = field<int32_t>(values, "applied_in_row", file),
                        .overflows_to_go = field<int32_t>(values, "overflows_to_go", file)};
  if (!(scale.scale > 0 && std::isfinite(scale.scale)))
    throw user_error("[{}: loss_scale] expected a scale above 0, got {}", file.string(), scale.scale);
  return scale;
}

PlateauState plateau_in(const nlohmann::json& saved, const std::filesystem::path& file) {
  if (!saved.contains(kReduceLrOnPlateau)) {
    throw user_error(
        "[{}] expected the state of lr_scheduler_type {}, got none; resume with the type of the interrupted "
        "run",
        file.string(), kReduceLrOnPlateau);
  }
  const nlohmann::json values = object_in(saved, kReduceLrOnPlateau.data(), file);
  const PlateauState plateau{.learning_rate = field<double>(values, "learning_rate", file),
                             .best = field<double>(values, "best", file),
                             .bad_evaluations = field<int64_t>(values, "bad_evaluations", file),
                             .cooldown_left = field<int64_t>(values, "cooldown_left", file)};
  if (!(plateau.learning_rate >= 0 && std::isfinite(plateau.learning_rate))) {
    throw user_error("[{}: {}] expected a learning_rate of 0 or more, got {}", file.string(),
                     kReduceLrOnPlateau, plateau.learning_rate);
  }
  return plateau;
}

// Gives the files that it read.
SafetensorsModel load_whole_model(const std::filesystem::path& checkpoint, const TrainingArguments& arguments,
                                  Session& session) {
  TorchGenerator generator(static_cast<uint64_t>(arguments.seed));
  SafetensorsModel files = SafetensorsModel::open(checkpoint);
  const LoadedWeights weights = load_weights(files, session.state(), session.executor(), generator);
  if (!weights.initialized.empty()) {
    throw user_error("[--resume_from_checkpoint {}] expected every parameter, '{}' is missing",
                     checkpoint.string(), weights.initialized[0]);
  }
  return files;
}

// Weights first: while they are being written, what the directory had is whole. See save_model_directory.
void save_model_files(const CheckpointContents& contents, const Executor& executor,
                      const std::filesystem::path& directory, bool merges) {
  const ProgramFamily& family = contents.session.family();
  const bool is_adapter = !family.adapters.empty() && !merges;
  if (is_adapter) {
    save_adapter(directory, contents.base, contents.session.options().step.lora, family, executor);
  } else {
    if (merges && !family.adapters.empty()) {
      save_merged_weights(directory, contents.base, family, executor);
    } else {
      save_weights(directory, *family.state, executor, contents.originals);
    }
    // An adapter of an earlier run would be loaded in place of what was just saved.
    for (const std::string_view name : {kAdapterConfigName, kAdapterWeightsName, kAdapterModelConfigName})
      remove_path(directory / name);
  }
  const std::string config = contents.model.config_json();
  if (!config.empty()) {
    nlohmann::json json = parse_json(config, "config.json");
    json.erase("torch_dtype");
    json["dtype"] = dtype_name(model_dtype(*family.state));
    write_json_atomic(directory / (is_adapter ? kAdapterModelConfigName : "config.json"), json);
  }
  for (const std::filesystem::path& companion : contents.companions)
    copy_file_atomic(companion, directory / companion.filename());
}

// What the user of a damaged checkpoint can do.
std::string advice_instead_of(const std::filesystem::path& checkpoint) {
  const std::filesystem::path path = (checkpoint / "").parent_path();
  const std::optional<int64_t> step = checkpoint_step(path.filename().string());
  const LatestCheckpoint before =
      step ? latest_checkpoint(parent_directory(path), *step) : LatestCheckpoint{};
  return before.path ? fmt::format("resume from {}, the newest complete one before it", before.path->string())
                     : "there is no complete one before it: train anew";
}

}  // namespace

void save_model_directory(const CheckpointContents& contents, const Executor& executor,
                          const std::filesystem::path& directory, bool merges) {
  const DirectoryLock lock(directory);
  ensure_writable_directory(directory);
  ManifestUpdate manifest(directory);
  save_model_files(contents, executor, directory, merges);
  manifest.commit();
}

std::filesystem::path save_checkpoint(const CheckpointContents& contents, const Executor& executor) {
  const TrainingArguments& args = contents.arguments;
  StagedDirectory staged(args.output_dir, contents.state.global_step);
  save_model_files(contents, executor, staged.path(), false);
  write_json_atomic(staged.path() / kArgumentsFile, shoehorn::to_json(args));
  save_trainer_state(contents.state, staged.path() / kTrainerStateFile);
  if (!args.save_only_model) {
    save_optimizer_states(staged.path() / kOptimizerFile, contents.session.state(), executor,
                          contents.session.options().step.optimizer.settings);
    nlohmann::json position = {{"identity", identity_of(args)}, {"position", to_json(contents.position)}};
    const LossScaleStorages& scale = contents.session.family().loss_scale;
    if (scale.scale.valid()) position["loss_scale"] = to_json(read_loss_scale(executor, scale));
    if (contents.position.plateau) position[kReduceLrOnPlateau] = to_json(*contents.position.plateau);
    write_json_atomic(staged.path() / kPositionFile, position);
  }
  return staged.commit();
}

ResumedRun load_checkpoint(const std::filesystem::path& checkpoint, const TrainingArguments& arguments,
                           Session& session, const std::filesystem::path& base) {
  const std::filesystem::path position_file = checkpoint / kPositionFile;
  if (std::error_code error; !std::filesystem::exists(position_file, error)) {
    throw user_error(
        "[--resume_from_checkpoint {}] expected a checkpoint with optimizer state, got one without {}; it "
        "was saved with --save_only_model or by another program",
        checkpoint.string(), kPositionFile);
  }
  const nlohmann::json saved = read_json(position_file);
  const nlohmann::json expected = identity_of(arguments);
  const nlohmann::json found = object_in(saved, "identity", position_file);
  for (const auto& [name, value] : expected.items()) {
    const nlohmann::json was = found.value(name, nlohmann::json());
    const bool is_older = !found.contains(name) && may_lack(name, value);
    if (was != value && !is_older) {
      throw user_error("[--resume_from_checkpoint {}] expected --{} {} as in the interrupted run, got {}",
                       checkpoint.string(), name, value_text(was), value_text(value));
    }
  }
  ResumedRun run;
  run.state = load_trainer_state(checkpoint / kTrainerStateFile);
  const nlohmann::json position = object_in(saved, "position", position_file);
  run.position.applied_updates = field<int64_t>(position, "applied_updates", position_file);
  const auto newer_field = [&](const char* name) {
    return position.contains(name) ? field<int64_t>(position, name, position_file) : 0;
  };
  run.position.skipped_steps = newer_field("skipped_steps");
  run.position.training_samples = newer_field("training_samples");
  run.position.samples_consumed = field<int64_t>(position, "samples_consumed", position_file);
  run.position.loss_since_log = field<double>(position, "loss_since_log", position_file);
  run.position.last_logged_step = field<int64_t>(position, "last_logged_step", position_file);
  run.position.loss_total = field<double>(position, "loss_total", position_file);
  run.position.nonfinite_losses = field<int64_t>(position, "nonfinite_losses", position_file);
  if (arguments.lr_scheduler_type == kReduceLrOnPlateau)
    run.position.plateau = plateau_in(saved, position_file);
  if (saved.contains("loss_scale")) run.loss_scale = loss_scale_in(saved, position_file);
  if (session.family().adapters.empty()) {
    run.files = load_whole_model(checkpoint, arguments, session);
  } else {
    run.files = start_weights(base, session.state(), session.executor(), arguments.seed).files;
    load_adapter(checkpoint, session.family(), session.executor());
  }
  load_optimizer_states(checkpoint / kOptimizerFile, session.state(), session.executor(),
                        session.options().step.optimizer.settings);
  return run;
}

void check_resumed_data(const std::filesystem::path& checkpoint, const ResumedRun& run,
                        int64_t training_samples, const WindowSchedule& schedule) {
  const int64_t before = run.position.training_samples;
  if (before > 0 && before != training_samples) {
    throw user_error(
        "[--resume_from_checkpoint {}] expected {} training samples as in the interrupted run, got {}; other "
        "data begin a run of their own, with --model_name_or_path",
        checkpoint.string(), before, training_samples);
  }
  const int64_t samples = schedule.samples_before(run.state.global_step);
  if (samples == run.position.samples_consumed) return;
  throw user_error(
      "[--resume_from_checkpoint {}] expected a data set and batches that have given {} samples after step "
      "{}, as in the interrupted run, got {}; resume with its training file and batch settings",
      checkpoint.string(), run.position.samples_consumed, run.state.global_step, samples);
}

std::optional<std::string> find_best_model(const std::filesystem::path& checkpoint,
                                           const std::string& recorded) {
  // (checkpoint / "") has an end to take off, whether or not the path was written with a slash.
  const std::filesystem::path sibling =
      (checkpoint / "").parent_path().parent_path() / std::filesystem::path(recorded).filename();
  std::error_code error;
  if (std::filesystem::is_directory(sibling, error)) return sibling.string();
  if (std::filesystem::is_directory(recorded, error)) return recorded;
  return std::nullopt;
}

std::filesystem::path find_checkpoint(const TrainingArguments& arguments, std::vector<std::string>& notes,
                                      int64_t below) {
  if (arguments.resume_from_checkpoint != "true") {
    std::filesystem::path named = arguments.resume_from_checkpoint;
    if (const std::string defect = checkpoint_defect(named); !defect.empty()) {
      throw user_error("[--resume_from_checkpoint {}] expected a complete checkpoint, got one where {}; {}",
                       named.string(), defect, advice_instead_of(named));
    }
    return named;
  }
  const LatestCheckpoint latest = latest_checkpoint(arguments.output_dir, below);
  for (const SkippedCheckpoint& skipped : latest.skipped) {
    notes.push_back(fmt::format("{} is skipped: {}", skipped.path.string(), skipped.reason));
  }
  if (!latest.path) {
    throw user_error(
        "[--resume_from_checkpoint] expected a complete checkpoint-N in {}, got none{}; start without it",
        arguments.output_dir, notes.empty() ? "" : fmt::format(" ({})", fmt::join(notes, "; ")));
  }
  return *latest.path;
}

std::filesystem::path resume_checkpoint(const TrainingArguments& arguments, std::vector<std::string>& notes,
                                        const std::function<void(const std::filesystem::path&)>& load) {
  for (int64_t below = std::numeric_limits<int64_t>::max();;) {
    std::filesystem::path checkpoint = find_checkpoint(arguments, notes, below);
    try {
      load(checkpoint);
      return checkpoint;
    } catch (const DamagedFile& damage) {
      // The base of adapters lies elsewhere, and is none the better for an older checkpoint.
      if (parent_directory(damage.path()) != (checkpoint / "").parent_path()) throw;
      const std::string name = damage.path().filename().string();
      if (arguments.resume_from_checkpoint != "true") {
        throw user_error(
            "[--resume_from_checkpoint {}] expected a complete checkpoint, got one where {}: {}; {}",
            checkpoint.string(), name, damage.defect(), advice_instead_of(checkpoint));
      }
      notes.push_back(fmt::format("{} is skipped: {}: {}", checkpoint.string(), name, damage.defect()));
      below = *checkpoint_step(checkpoint.filename().string());
    }
  }
}

}  // namespace shoehorn
