// For tests: the states that a disk can be in after a power cut, given the operations before it.
//
// POSIX promises only that synced data is there. If a file was not synced after a write, its data may be
// there, absent, cut off, or zeros. If a directory was not synced, any of the changes to its names may be
// missing, even an earlier one when a later one is there. The simulation tries these subsets of the unsynced
// changes: none, all, each prefix in order, all but one, and only one; each with the four fates of data. The
// idea is from the fault injection of LevelDB's tests and from ALICE (Pillai et al., 2014).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/file_operations.h"
#include "io/test_directory.h"

namespace shoehorn {

// A FileOperation with a copy of its data.
struct RecordedOperation {
  FileOperation::Kind kind;
  std::filesystem::path path;
  std::filesystem::path to;
  int64_t offset;
  std::string data;
};

// Records all operations of the process during its lifetime.
class OperationLog {
 public:
  OperationLog() {
    record_file_operations([this](const FileOperation& done) { add(done); });
  }
  ~OperationLog() { record_file_operations({}); }
  OperationLog(const OperationLog&) = delete;
  OperationLog& operator=(const OperationLog&) = delete;

  // Also call it for operations that bypass the recorder.
  void add(const FileOperation& done) {
    const std::string data(reinterpret_cast<const char*>(done.data.data()), done.data.size());
    operations_.push_back({done.kind, done.path, done.to, done.offset, data});
  }
  // The operations since the last call.
  std::vector<RecordedOperation> take() { return std::exchange(operations_, {}); }

 private:
  std::vector<RecordedOperation> operations_;
};

// The files below a root: path -> content; a directory has no content.
using DiskState = std::map<std::string, std::optional<std::string>>;

inline void write_disk_state(const DiskState& state, const std::filesystem::path& root) {
  std::filesystem::remove_all(root);
  std::filesystem::create_directories(root);
  for (const auto& [path, content] : state) {
    if (content) {
      std::ofstream(root / path, std::ios::binary) << *content;
    } else {
      std::filesystem::create_directory(root / path);
    }
  }
}

class SimulatedDisk {
 public:
  // Everything below `root` at this time counts as synced.
  explicit SimulatedDisk(std::filesystem::path root) : root_(std::move(root)) {
    nodes_.push_back({.is_directory = true});
    read_directory(root_, 0);
  }

  void apply(const RecordedOperation& done) {
    using Kind = FileOperation::Kind;
    switch (done.kind) {
      case Kind::kCreate:
        return change(done.path, new_node(false));
      case Kind::kMakeDirectory:
        return change(done.path, new_node(true));
      case Kind::kUnlink:
      case Kind::kRemoveDirectory:
        return change(done.path, std::nullopt);
      case Kind::kRename:
        return rename(done.path, done.to);
      case Kind::kWrite: {
        std::string& data = node_at(done.path).data;
        data.resize(std::max(data.size(), static_cast<size_t>(done.offset) + done.data.size()));
        data.replace(static_cast<size_t>(done.offset), done.data.size(), done.data);
        return;
      }
      case Kind::kResize:
        return node_at(done.path).data.resize(static_cast<size_t>(done.offset));
      case Kind::kSync:
        return sync(index_of(done.path));
    }
  }

  // All possible states, without duplicates.
  std::set<DiskState> states() const {
    std::set<DiskState> all;
    const size_t count = changes_.size();
    const auto add = [&](const auto& is_kept) {
      for (const Fate fate : {Fate::kLost, Fate::kWritten, Fate::kTorn, Fate::kZeros})
        all.insert(state(is_kept, fate));
    };
    for (size_t n = 0; n <= count; ++n) add([&](size_t i) { return i < n; });
    for (size_t n = 0; n < count; ++n) {
      add([&](size_t i) { return i != n; });
      add([&](size_t i) { return i == n; });
    }
    return all;
  }

 private:
  enum class Fate { kLost, kWritten, kTorn, kZeros };
  using Names = std::map<std::string, size_t>;
  struct Node {
    bool is_directory = false;
    std::string data = {};
    std::string synced_data = {};
    Names names = {};
    Names synced_names = {};
  };
  // One atomic change to the names in a directory: each name gets a node, or is removed (nullopt).
  struct Change {
    size_t directory;
    std::vector<std::pair<std::string, std::optional<size_t>>> names;
  };

  void read_directory(const std::filesystem::path& path, size_t index) {
    for (const std::string& name : list_directory(path)) {
      const bool is_directory = std::filesystem::is_directory(path / name);
      const size_t child = new_node(is_directory);
      if (is_directory) {
        read_directory(path / name, child);
      } else {
        nodes_[child].data = nodes_[child].synced_data = read_text_file(path / name);
      }
      nodes_[index].names[name] = nodes_[index].synced_names[name] = child;
    }
  }

  size_t new_node(bool is_directory) {
    nodes_.push_back({.is_directory = is_directory});
    return nodes_.size() - 1;
  }

  size_t index_of(const std::filesystem::path& path) const {
    size_t index = 0;
    for (const std::filesystem::path& name : (path / "").parent_path().lexically_relative(root_)) {
      if (name != ".") index = nodes_[index].names.at(name.string());
    }
    return index;
  }
  Node& node_at(const std::filesystem::path& path) { return nodes_[index_of(path)]; }

  void note(Change made) {
    for (const auto& [name, node] : made.names) {
      nodes_[made.directory].names.erase(name);
      if (node) nodes_[made.directory].names[name] = *node;
    }
    changes_.push_back(std::move(made));
  }
  void change(const std::filesystem::path& path, std::optional<size_t> node) {
    note({index_of(path.parent_path()), {{path.filename().string(), node}}});
  }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) {
    ASSERT_EQ(from.parent_path(), to.parent_path()) << "a rename between directories is not simulated";
    note({index_of(to.parent_path()),
          {{from.filename().string(), std::nullopt}, {to.filename().string(), index_of(from)}}});
  }

  void sync(size_t index) {
    Node& node = nodes_[index];
    node.synced_data = node.data;
    node.synced_names = node.names;
    std::erase_if(changes_, [&](const Change& made) { return made.directory == index; });
  }

  template <typename IsKept>
  DiskState state(const IsKept& is_kept, Fate fate) const {
    std::vector<Names> names;
    for (const Node& node : nodes_) names.push_back(node.synced_names);
    for (size_t i = 0; i < changes_.size(); ++i) {
      if (!is_kept(i)) continue;
      for (const auto& [name, node] : changes_[i].names) {
        names[changes_[i].directory].erase(name);
        if (node) names[changes_[i].directory][name] = *node;
      }
    }
    DiskState result;
    add_directory(names, 0, "", fate, result);
    return result;
  }

  void add_directory(const std::vector<Names>& names, size_t index, const std::string& path, Fate fate,
                     DiskState& result) const {
    for (const auto& [name, child] : names[index]) {
      const std::string child_path = path.empty() ? name : path + "/" + name;
      if (nodes_[child].is_directory) {
        result[child_path] = std::nullopt;
        add_directory(names, child, child_path, fate, result);
      } else {
        result[child_path] = data_after(nodes_[child], fate);
      }
    }
  }

  static std::string data_after(const Node& node, Fate fate) {
    if (fate == Fate::kWritten || node.data == node.synced_data) return node.data;
    if (fate == Fate::kLost) return node.synced_data;
    return fate == Fate::kTorn ? node.data.substr(0, node.data.size() / 2)
                               : std::string(node.data.size(), '\0');
  }

  std::filesystem::path root_;
  std::vector<Node> nodes_;      // the root first
  std::vector<Change> changes_;  // not yet synced, in order
};

}  // namespace shoehorn
