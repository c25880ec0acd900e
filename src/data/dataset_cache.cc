#include "data/dataset_cache.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/content_hash.h"
#include "base/error.h"
#include "data/data_set_file.h"
#include "data/shard_source.h"
#include "io/checksummed_files.h"
#include "io/file.h"
#include "io/file_content.h"
#include "io/file_operations.h"
#include "io/input_stream.h"
#include "io/json_file.h"
#include "io/leftovers.h"
#include "io/manifest.h"

namespace shoehorn {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// Raised where the same text, tokenizer and options come to give other samples, or data_set.json is to say more.
constexpr int kVersion = 3;
constexpr const char* kHint = "remove the directory, or give --overwrite_cache to tokenize the text again";

ByteProgress progress_of(const DatasetCacheOptions& cache, CacheWork work) {
  if (!cache.on_progress) return {};
  return [&cache, work](int64_t done, int64_t bytes) { cache.on_progress(work, done, bytes); };
}

// A name beside `final` that nobody reads by.
fs::path temporary_name(const fs::path& final) {
  static std::atomic<int64_t> counter{0};
  return parent_directory(final) /
         fmt::format(".{}.tmp-{}-{}", final.filename().string(), getpid(), counter.fetch_add(1));
}

// A directory under construction.
class StagedDataSet {
 public:
  explicit StagedDataSet(const fs::path& final) {
    int error_number = EEXIST;
    while (error_number == EEXIST) {  // an earlier process's leftover that had the same id
      path_ = temporary_name(final);
      error_number = file_operations::make_directory(path_);
    }
    if (error_number != 0) throw_system_error(path_, "make this directory", error_number);
    lock_ = try_lock(path_);
  }
  StagedDataSet(const StagedDataSet&) = delete;
  StagedDataSet& operator=(const StagedDataSet&) = delete;
  ~StagedDataSet() {
    try {
      remove_path(path_);
    } catch (const SystemError&) {
      // What stays is removed by the next process that uses the cache.
    }
  }

  const fs::path& path() const { return path_; }

  // Gives it its name, unless another process gave it first. Its manifest has been written.
  void publish(const fs::path& final) {
    const int error_number = file_operations::rename(path_, final);
    if (error_number != 0 && error_number != ENOTEMPTY && error_number != EEXIST)
      throw_system_error(final, fmt::format("rename '{}' to it", path_.filename().string()), error_number);
    sync_path(parent_directory(final));
  }

 private:
  fs::path path_;
  FileDescriptor lock_;
};

void remove_leftovers(const fs::path& directory) {
  for (const std::string& name : list_directory(directory)) {
    const int64_t process = temporary_file_process(name);
    std::error_code error;
    if (process == 0 || !fs::is_directory(directory / name, error)) continue;
    if (is_abandoned(directory / name, process)) remove_path(directory / name);
  }
}

// It loses its name first, so that half of it is never seen.
void discard(const fs::path& final) {
  const fs::path leftover = temporary_name(final);
  rename_path(final, leftover);
  sync_path(parent_directory(final));
  remove_path(leftover);
}

// A data set that is whole, and what its data_set.json says.
struct OpenedDataSet {
  fs::path path;  // of that file
  json file;
  Dataset dataset;
};

OpenedDataSet open_data_set(const fs::path& directory, const std::string& key,
                            const DatasetCacheOptions& cache) {
  const std::optional<Manifest> manifest = read_manifest(directory);
  const fs::path path = directory / kDataSetFile;
  if (!manifest || !manifest->contains(kDataSetFile))
    throw DamagedFile(directory / kManifestName, "expected the checksum of data_set.json, got none");
  verify_listed(path);
  const json file = read_json(path);
  DataSetIdentity identity = data_set_identity_from_json(file, path);
  if (identity.key != key) {
    throw DamagedFile(path,
                      fmt::format("expected the data set of the key {}, got that of {}", key, identity.key));
  }
  const auto source = std::make_shared<const ShardSource>(directory, identity.shards, *manifest,
                                                          std::move(identity.content_hash),
                                                          progress_of(cache, CacheWork::kVerifyTokens));
  return {.path = path, .file = file, .dataset = Dataset(source)};
}

// Makes a data set in a directory without a name, and gives it its name when it is whole. `stream` writes files of
// tokens into a directory, gives their names, and returns what data_set.json is to say of the samples besides.
using Stream = std::function<json(const fs::path& directory, std::vector<std::string>& shards)>;

// When each of the files was written.
std::vector<fs::file_time_type> write_times(const DataFiles& files) {
  std::vector<fs::file_time_type> times;
  std::error_code absent;
  for (const fs::path& path : files.paths()) times.push_back(fs::last_write_time(path, absent));
  return times;
}

void write_data_set(const DataFiles& texts, const std::string& key, const fs::path& final,
                    const DatasetCacheOptions& cache, const Stream& stream) {
  StagedDataSet staged(final);
  const ChecksummedFiles checksums(staged.path(), FileSync::kTogether);
  std::vector<std::string> shards;
  const std::vector<fs::file_time_type> written_before = write_times(texts);
  json file = stream(staged.path(), shards);
  if (write_times(texts) != written_before)
    throw system_error("[{}] expected a file that stays as it is, got one that was changed while being read",
                       texts.name());
  Manifest written;
  for (const auto& [name, listed] : checksums.files())
    written[name] = {listed.bytes, ListedFile::Check::kXxh128, listed.xxh128};
  const ShardSource source(staged.path(), shards, written, {}, progress_of(cache, CacheWork::kVerifyTokens));
  file.update({{"version", kVersion},
               {"key", key},
               {"source", texts.name()},
               {"samples", source.facts().size},
               {"tokens", source.facts().of(TokenStream::kInput).tokens},
               {"content_hash", hash_samples(source, progress_of(cache, CacheWork::kHashTokens))},
               {"shards", shards}});
  write_json_atomic(staged.path() / kDataSetFile, file);
  write_manifest(staged.path(), checksums.files());
  staged.publish(final);
}

// The data set of the key, which is made first where the cache lacks it.
OpenedDataSet open_or_write(const DataFiles& texts, const std::string& key, const DatasetCacheOptions& cache,
                            const Stream& stream) {
  const fs::path final = cache.directory / key;
  // A cache that has it may be one that cannot be written.
  if (cache.overwrite || !path_exists(final)) {
    ensure_writable_directory(cache.directory);
    remove_leftovers(cache.directory);
    // Without overwrite, one that is there by now was made by another process meanwhile, and stays.
    if (cache.overwrite && path_exists(final)) discard(final);
    write_data_set(texts, key, final, cache, stream);
  }
  try {
    return open_data_set(final, key, cache);
  } catch (const DamagedFile& damage) {
    throw DamagedFile(damage.path(), damage.defect(), kHint);
  }
}

// What is said of the samples, and the samples.
template <typename Loaded>
Loaded loaded_from(const OpenedDataSet& opened, Loaded (*from_json)(const json&, const fs::path&),
                   Dataset Loaded::* samples) {
  Loaded loaded = from_json(opened.file, opened.path);
  loaded.*samples = opened.dataset;
  loaded.files = opened.path.parent_path();
  return loaded;
}

std::string hash_of(const json& what) {
  const std::string text = format_json(what);
  ContentHash hash;
  hash.add(std::as_bytes(std::span(text)));
  return hash.hex();
}

// What tells files apart: the bytes and the format of each.
void add_content(json& what, const DataFiles& files, const ByteProgress& on_progress) {
  if (std::ranges::any_of(files.paths(), is_standard_input)) {
    throw user_error(
        "[--dataset_cache] expected files, got standard input, which cannot be read again; leave --dataset_cache out, "
        "or write the text into a file");
  }
  std::vector<std::string> contents;
  std::vector<std::string> formats;
  const int64_t bytes = bytes_of_files(files.paths());
  int64_t bytes_before = 0;
  for (const fs::path& path : files.paths()) {
    int64_t bytes_of_file = 0;
    contents.push_back(content_of_file(path, [&](int64_t bytes_so_far) {
      bytes_of_file = bytes_so_far;
      if (on_progress) on_progress(bytes_before + bytes_so_far, bytes);
    }));
    bytes_before += bytes_of_file;
    formats.push_back(without_compression(path).extension().string());
  }
  if (contents.size() == 1) {
    what.update({{"content", contents[0]}, {"format", formats[0]}});
  } else {
    what.update({{"content", contents}, {"format", formats}});
  }
}

}  // namespace

std::string dataset_key(const DataFiles& files, const LoadOptions& options, const std::string& tokenizer,
                        const ByteProgress& on_progress) {
  json what = {{"version", kVersion},
               {"tokenizer", tokenizer},
               {"text_columns", options.columns.text_column_names},
               {"label_columns", options.columns.label_column_name},
               {"id_column", options.columns.id_column_name},
               {"max_samples", options.max_samples},
               {"read_labels", options.read_labels}};
  add_content(what, files, on_progress);
  const ColumnOptions& columns = options.columns;
  if (!columns.preferred_text_columns.empty())
    what["preferred_text_columns"] = columns.preferred_text_columns;
  if (!columns.preferred_label_columns.empty())
    what["preferred_label_columns"] = columns.preferred_label_columns;
  if (options.labels != nullptr) what["labels"] = to_json(*options.labels);
  if (options.find.problem) what["problem_type"] = problem_type_name(*options.find.problem);
  if (options.find.model != nullptr) what["model_labels"] = to_json(*options.find.model);
  return hash_of(what);
}

LoadedDataset load_cached_dataset(const DataFiles& files, const TokenizeFunction& tokenize,
                                  const LoadOptions& options, const DatasetCacheOptions& cache) {
  const Stream stream = [&](const fs::path& directory, std::vector<std::string>& shards) {
    return to_json(stream_dataset(files, tokenize, options, directory, shards));
  };
  const std::string key =
      dataset_key(files, options, cache.tokenizer, progress_of(cache, CacheWork::kHashTexts));
  return loaded_from(open_or_write(files, key, cache, stream), loaded_dataset_from_json,
                     &LoadedDataset::dataset);
}

std::string texts_key(const DataFiles& files, const TextOptions& options, const std::string& tokenizer,
                      const ByteProgress& on_progress) {
  json what = {{"version", kVersion},
               {"samples", "texts"},
               {"tokenizer", tokenizer},
               {"text_column", options.text_column},
               {"keep_linebreaks", options.keep_linebreaks}};
  add_content(what, files, on_progress);
  if (!options.preferred_text_column.empty()) what["preferred_text_column"] = options.preferred_text_column;
  if (options.end_token) what["end_token"] = *options.end_token;
  return hash_of(what);
}

LoadedTexts load_cached_texts(const DataFiles& files, const TokenizeFunction& tokenize,
                              const TextOptions& options, const DatasetCacheOptions& cache) {
  const Stream stream = [&](const fs::path& directory, std::vector<std::string>& shards) {
    return to_json(stream_texts(files, tokenize, options, directory, shards));
  };
  const std::string key =
      texts_key(files, options, cache.tokenizer, progress_of(cache, CacheWork::kHashTexts));
  return loaded_from(open_or_write(files, key, cache, stream), loaded_texts_from_json, &LoadedTexts::texts);
}

}  // namespace shoehorn
