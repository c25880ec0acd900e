#include "state/checkpoint.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/checkpoint_directory.h"
#include "io/directory_lock.h"
#include "io/file.h"
#include "io/json_file.h"
#include "io/model_directory.h"
#include "model/task.h"
#include "ranks/agreement.h"
#include "session/loss_scale_state.h"
#include "state/adapter_config.h"
#include "state/adapter_tensors.h"
#include "state/adapter_weights.h"
#include "state/checkpoint_record.h"
#include "state/weights.h"
#include "tokenize/vocab_merges_files.h"

namespace shoehorn {

namespace {

StartedWeights load_whole_model(const std::filesystem::path& checkpoint, const TrainingArguments& arguments,
                                Session& session) {
  StartedWeights weights = start_weights(checkpoint, session.state(), session.executor(), arguments.seed);
  if (!weights.initialized.empty()) {
    throw user_error("[--resume_from_checkpoint {}] expected every parameter, '{}' is missing",
                     checkpoint.string(), weights.initialized[0]);
  }
  return weights;
}

constexpr size_t kLongestPath = 4096;

Owner owner_of(const CheckpointContents& contents) {
  return contents.ranks == nullptr ? Owner{} : Owner{contents.ranks->rank(), contents.ranks->size()};
}

// The first rank's path, on all of them.
std::filesystem::path agreed_path(Communicator& ranks, const std::filesystem::path& path) {
  return gather_texts(ranks, path.string(), kLongestPath)[0];
}

// Whether a rank has a part of a weight, and not only of states.
bool shares_weights(const CheckpointContents& contents) {
  return !contents.session.family().shards.empty();
}

// Of weights that all ranks have alike the first writes all.
void save_own_weights(const CheckpointContents& contents, const Executor& executor,
                      const std::filesystem::path& directory) {
  const Owner owner = owner_of(contents);
  if (!shares_weights(contents) && owner.number > 0) return;
  save_weights(directory, contents.session.state(), executor, contents.originals,
               shares_weights(contents) ? owner : Owner{});
}

void save_states(const CheckpointContents& contents, const Executor& executor,
                 const std::filesystem::path& directory) {
  save_optimizer_states(directory / kOptimizerFile, contents.session.state(), executor,
                        contents.session.options().step.optimizer.settings, owner_of(contents));
}

bool has_adapters(const CheckpointContents& contents) {
  return !contents.session.family().adapters.empty();
}

// On all ranks; the first writes.
void save_adapters(const CheckpointContents& contents, const Executor& executor,
                   const std::filesystem::path& directory) {
  const OriginalWeights* originals = contents.originals;
  save_adapter(directory, originals == nullptr ? std::filesystem::path() : originals->files.path(),
               contents.session.options().step.lora, contents.session.family(), executor, contents.ranks);
}

// What another rank than the first writes of a checkpoint.
void save_part(const CheckpointContents& contents, const Executor& executor) {
  StagedPart part(agreed_path(*contents.ranks, {}), owner_of(contents));
  if (has_adapters(contents)) {
    save_adapters(contents, executor, part.path());
  } else {
    save_own_weights(contents, executor, part.path());
  }
  if (!contents.arguments.save_only_model) save_states(contents, executor, part.path());
  part.commit();
  wait_for_all(*contents.ranks);
}

// Where ranks put their parts of a model that is saved whole.
std::filesystem::path parts_of_model(const std::filesystem::path& directory) {
  return directory / ".parts-of-weights";
}

// On all ranks; when it returns on the first, all parts are there.
void save_parts_of_model(const CheckpointContents& contents, const Executor& executor,
                         const std::filesystem::path& directory) {
  const std::filesystem::path parts = agreed_path(*contents.ranks, parts_of_model(directory));
  save_own_weights(contents, executor, parts);
  wait_for_all(*contents.ranks);
}

// What a model's files of weights are made of: what is in memory here, or the files of all ranks.
enum class WeightsFrom { kHere, kAllParts };

// transformers writes one for each model that generates, by its config. One that was there travels along.
void save_generation_config(const CheckpointContents& contents, const std::string& config,
                            const std::filesystem::path& directory) {
  const bool is_language_model = contents.model.task().label_shape().kind == LabelKind::kNextToken;
  const bool is_there = std::ranges::any_of(contents.companions, [](const std::filesystem::path& companion) {
    return companion.filename() == kGenerationConfigName;
  });
  if (!is_language_model || is_there || config.empty()) return;
  const nlohmann::json of_model = parse_json(config, "config.json");
  nlohmann::json generation = {{"_from_model_config", true}};
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (const auto found = of_model.find(key); found != of_model.end() && !found->is_null())
      generation[key] = *found;
  }
  write_json_atomic(directory / kGenerationConfigName, generation);
}

// A directory of before tokenizer.json gets one. transformers makes the same of the other files.
void save_tokenizer_json(const CheckpointContents& contents, const std::filesystem::path& directory) {
  const auto merges =
      std::ranges::find(contents.companions, "merges.txt", [](const auto& file) { return file.filename(); });
  if (merges == contents.companions.end()) return;
  const TokenizerSideFiles files(merges->parent_path());
  if (has_vocab_and_merges(files))
    write_text_atomic(directory / "tokenizer.json", read_vocab_and_merges(files).tokenizer_json);
}

// Weights first: while they are being written, what the directory had is whole. See save_model_directory.
void save_model_files(const CheckpointContents& contents, const Executor& executor,
                      const std::filesystem::path& directory, bool merges, WeightsFrom from) {
  const ProgramFamily& family = contents.session.family();
  const bool is_adapter = has_adapters(contents) && !merges;
  DType dtype = model_dtype(*family.state);
  if (is_adapter) {
    save_adapters(contents, executor, directory);
  } else {
    if (has_adapters(contents)) {
      dtype = save_merged_weights(directory, contents.originals, family, executor, contents.ranks);
    } else if (from == WeightsFrom::kAllParts) {
      assemble_weights(directory, TensorFiles::open_weights(parts_of_model(directory)), *family.state);
    } else {
      save_own_weights(contents, executor, directory);
    }
    // An adapter of an earlier run would be loaded in place of what was just saved.
    for (const std::string_view name : {kAdapterConfigName, kAdapterWeightsName, kAdapterModelConfigName})
      remove_path(directory / name);
  }
  const std::string config = contents.model.config_json();
  if (!config.empty()) {
    nlohmann::json json = parse_json(config, "config.json");
    json.erase("torch_dtype");
    json["dtype"] = dtype_name(dtype);
    write_json_atomic(directory / (is_adapter ? kAdapterModelConfigName : "config.json"), json);
  }
  for (const std::filesystem::path& companion : contents.companions) {
    const std::filesystem::path copy = directory / companion_name(companion);
    make_directories(copy.parent_path());
    copy_file_atomic(companion, copy);
  }
  save_tokenizer_json(contents, directory);
  if (!is_adapter) save_generation_config(contents, config, directory);
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
  const bool writes_parts =
      shares_weights(contents) && !owner_of(contents).is_alone() && !has_adapters(contents);
  if (owner_of(contents).number > 0) {
    if (writes_parts) {
      save_parts_of_model(contents, executor, directory);
    } else if (has_adapters(contents) && merges) {
      save_merged_weights(directory, contents.originals, contents.session.family(), executor, contents.ranks);
    } else if (has_adapters(contents)) {
      save_adapters(contents, executor, directory);
    }
    return;
  }
  const DirectoryLock lock(directory);
  ensure_writable_directory(directory);
  if (writes_parts) {
    remove_path(parts_of_model(directory));
    ensure_writable_directory(parts_of_model(directory));
    save_parts_of_model(contents, executor, directory);
  }
  ManifestUpdate manifest(directory);
  save_model_files(contents, executor, directory, merges,
                   writes_parts ? WeightsFrom::kAllParts : WeightsFrom::kHere);
  manifest.commit();
  remove_path(parts_of_model(directory));
}

std::filesystem::path save_checkpoint(const CheckpointContents& contents, const Executor& executor) {
  const TrainingArguments& args = contents.arguments;
  const Owner owner = owner_of(contents);
  if (owner.number > 0) {
    save_part(contents, executor);
    return std::filesystem::path(args.output_dir) / fmt::format("checkpoint-{}", contents.state.global_step);
  }
  StagedDirectory staged(args.output_dir, contents.state.global_step);
  if (!owner.is_alone()) agreed_path(*contents.ranks, staged.path());
  save_model_files(contents, executor, staged.path(), false, WeightsFrom::kHere);
  write_json_atomic(staged.path() / kArgumentsFile, shoehorn::to_json(args));
  save_trainer_state(contents.state, staged.path() / kTrainerStateFile);
  if (!args.save_only_model) {
    save_states(contents, executor, staged.path());
    ResumeState state{.identity = contents.identity == nullptr ? RunIdentity{} : *contents.identity,
                      .position = contents.position};
    const LossScaleStorages& scale = contents.session.family().loss_scale;
    if (scale.scale.valid()) state.loss_scale = read_loss_scale(executor, scale);
    write_json_atomic(staged.path() / kRunStateFile, to_json(state));
  }
  if (!owner.is_alone()) wait_for_all(*contents.ranks);
  return staged.commit(owner.count);
}

ResumedRun load_checkpoint(const std::filesystem::path& checkpoint, const TrainingArguments& arguments,
                           Session& session, const std::filesystem::path& base) {
  const ResumeState saved = read_run_state(checkpoint);
  ResumedRun run{.state = load_trainer_state(checkpoint / kTrainerStateFile),
                 .position = saved.position,
                 .loss_scale = saved.loss_scale};
  if (arguments.lr_scheduler_type != kReduceLrOnPlateau) {
    run.position.plateau.reset();
  } else if (!run.position.plateau) {
    throw user_error(
        "[{}] expected the state of lr_scheduler_type {}, got none; resume with the type of the interrupted "
        "run",
        (checkpoint / kRunStateFile).string(), kReduceLrOnPlateau);
  }
  const bool adapts = !session.family().adapters.empty();
  StartedWeights weights =
      adapts ? start_weights(base, session.state(), session.executor(), arguments.seed,
                             [&](const Parameter& each) { return replaces_head(session.family(), each); })
             : load_whole_model(checkpoint, arguments, session);
  run.originals = std::move(weights.originals);
  run.unused = std::move(weights.unused);
  if (adapts) load_adapter(checkpoint, session.family(), session.executor());
  // Ranks that compute for the first one have no states (passes/replicas.h).
  if (session.options().step.ranks.updates())
    load_optimizer_states(checkpoint / kOptimizerFile, session.state(), session.executor(),
                          session.options().step.optimizer.settings);
  return run;
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
    if (!path_exists(named)) {
      throw user_error(
          "[--resume_from_checkpoint {}] expected the directory of a checkpoint, got nothing of this name",
          named.string());
    }
    if (const LatestCheckpoint inside = latest_checkpoint(named); inside.path) {
      throw user_error(
          "[--resume_from_checkpoint {}] expected a checkpoint, got a directory that has some; the newest "
          "complete one is {}",
          named.string(), inside.path->string());
    }
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
