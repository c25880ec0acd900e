// Tokenized data sets on a disk (--dataset_cache): a file of texts is tokenized once, and never held in memory.
//
//   DIR/KEY/                     one data set, whole or absent
//     data_set.json              its key, its files in order, its labels' names, the hash of its content
//     shard-00000.tokens …       data/shard_file.h
//     shoehorn_manifest.json     sizes and checksums of these
//   DIR/.KEY.tmp-PID-K/          being written; its owner holds a lock (flock) on it
//
// KEY is a hash of all that decides the samples: the bytes of the files of texts, the tokenizer, the options
// of loading. What changes one of them makes another key, so that nothing stale is ever used. Two processes
// may write the same key: the first to be ready gives its name, and the other's is removed.
//
// Errors: UserError, DamagedFile among them, where what lies under the key is not what was written;
// SystemError naming the path where the system failed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "data/load_dataset.h"
#include "data/texts.h"

namespace shoehorn {

// What is read besides the texts that are tokenized, as many bytes as there are: the files of texts for their key; files of
// tokens, to be verified; the tokens of a new data set, for the hash of its content.
enum class CacheWork : uint8_t { kHashTexts, kVerifyTokens, kHashTokens };

struct DatasetCacheOptions {
  std::filesystem::path directory = {};  // DIR, made where it is absent
  bool overwrite = false;                // tokenize again, and replace what is there
  std::string tokenizer = {};            // what tells tokenizers apart, their maximal length included
  // Told, after each piece, of the bytes of one work that are done, out of all; may be unset. What it throws ends the work, and
  // nothing is left of a data set that is not whole.
  std::function<void(CacheWork work, int64_t done, int64_t bytes)> on_progress = {};
};

// The key of files under such options. Reads all of them, as they lie on the disk, and tells `on_progress`, which may be
// unset. UserError: standard input, which can be read once.
std::string dataset_key(const DataFiles& files, const LoadOptions& options, const std::string& tokenizer,
                        const std::function<void(int64_t done, int64_t bytes)>& on_progress = {});

// load_dataset from the cache; what it lacks is tokenized to it first. Every byte is read and checked when a
// data set is opened, and its files stay open. Of data sets that a killed process left unfinished those in
// DIR are removed.
LoadedDataset load_cached_dataset(const DataFiles& files, const TokenizeFunction& tokenize,
                                  const LoadOptions& options, const DatasetCacheOptions& cache);

// The same of the texts of a language model. How blocks are cut from them is no part of the key: other blocks need
// no text tokenized again.
std::string texts_key(const DataFiles& files, const TextOptions& options, const std::string& tokenizer,
                      const std::function<void(int64_t done, int64_t bytes)>& on_progress = {});
LoadedTexts load_cached_texts(const DataFiles& files, const TokenizeFunction& tokenize,
                              const TextOptions& options, const DatasetCacheOptions& cache);

}  // namespace shoehorn
