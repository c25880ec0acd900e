// A power cut after each operation of a save, with what was not synced lost or out of order: what was finished is
// there, and nothing that was not is taken for it. Each fsync of the room is needed by one of these tests.
#include "io/power_loss.h"

#include <nlohmann/json.hpp>

#include "io/checkpoint_directory.h"
#include "io/json_file.h"
#include "io/model_directory.h"
#include "io/safetensors_writer.h"
#include "io/verified_tensors.h"

namespace shoehorn {
namespace {

namespace fs = std::filesystem;

// In memory where there is such a place: thousands of states are written.
fs::path state_directory() {
  std::error_code error;
  const fs::path memory = "/dev/shm";
  return fs::is_directory(memory, error)
             ? memory / fmt::format("shoehorn-power-loss-{}", getpid())
             : fs::temp_directory_path() / fmt::format("shoehorn-power-loss-{}", getpid());
}

class PowerLoss : public testing::Test {
 protected:
  ~PowerLoss() override { fs::remove_all(disk()); }

  const fs::path& work() const { return work_.path(); }  // where steps are done
  static fs::path disk() { return state_directory(); }   // what a power cut left of it

  // Does the steps one after the other. check(completed, is_under_way) is called for each state that a cut during or
  // after a step can leave on disk(), `completed` steps having returned.
  template <typename Check>
  void cut_power(const std::vector<std::function<void()>>& steps, const Check& check) {
    SimulatedDisk simulated(work());
    for (size_t step = 0; step < steps.size(); ++step) {
      log_.take();  // what the checks of the step before did
      steps[step]();
      const std::vector<RecordedOperation> done = log_.take();
      EXPECT_FALSE(done.empty()) << "step " << step << " was not recorded";
      std::set<DiskState> known;
      for (size_t i = 0; i < done.size() && !HasFailure(); ++i) {
        simulated.apply(done[i]);
        check_states(
            simulated, known, [&] { check(step, true); }, fmt::format("step {}, operation {}", step, i));
      }
      known.clear();
      check_states(simulated, known, [&] { check(step + 1, false); }, fmt::format("after step {}", step));
    }
    EXPECT_GT(states_, 10);
  }

  template <typename Check>
  void check_states(const SimulatedDisk& simulated, std::set<DiskState>& known, const Check& check,
                    const std::string& when) {
    for (const DiskState& state : simulated.states()) {
      if (HasFailure() || !known.insert(state).second) continue;
      SCOPED_TRACE(when);
      write_disk_state(state, disk());
      check();
      if (HasFailure()) {
        for (const auto& [path, content] : state)
          ADD_FAILURE() << path << (content ? fmt::format(": {} bytes", content->size()) : "/");
      }
      ++states_;
    }
  }

  // As a writer of another library would.
  void write_foreign(const fs::path& path, const std::string& text) {
    std::ofstream(path) << text;
    log_.add({FileOperation::Kind::kCreate, path});
    log_.add({FileOperation::Kind::kWrite, path, {}, 0, std::as_bytes(std::span(text))});
  }

  const TestDirectory work_;
  OperationLog log_;
  int64_t states_ = 0;
};

// Tensors of one value each, so that a mixture shows.
std::vector<TensorSpec> tensors() {
  return {{"a", DType::kF32, {3}}, {"b", DType::kF32, {3}}, {"c", DType::kF32, {3}}};
}

template <typename Writer>
void append_all(Writer& writer, const std::vector<TensorSpec>& specs, char value) {
  const std::string data(12, value);
  for (const TensorSpec& spec : specs) writer.append(spec.name, std::as_bytes(std::span(data)));
  writer.commit();
}

class PowerLossOfCheckpoints : public PowerLoss {
 protected:
  // By number; what is not there has no entry.
  using Contents = std::map<int64_t, char>;

  void save(int64_t step, char content) {
    StagedDirectory staged(work() / "made/out", step);
    make_directories(staged.path() / "below");
    SafetensorsWriter writer(staged.path() / "model.safetensors", tensors());
    append_all(writer, tensors(), content);
    write_text_atomic(staged.path() / "state.json", std::string(7, content));
    write_text_atomic(staged.path() / "below/text", std::string(3, content));
    write_foreign(staged.path() / "below/foreign", std::string(5, content));
    staged.commit();
  }

  // The value that all files of a checkpoint have; '?' where they are not what was saved.
  static char content_of(const fs::path& checkpoint) {
    if (!checkpoint_defect(checkpoint, VerifiedFiles::kAll).empty()) return '?';
    const std::string state = read_text_file(checkpoint / "state.json");
    const char content = state.empty() ? '?' : state[0];
    std::string weights(12, '?');
    SafetensorsFile::open(checkpoint / "model.safetensors")
        .read_into("b", std::as_writable_bytes(std::span(weights)));
    const bool is_whole = state == std::string(7, content) && weights == std::string(12, content) &&
                          read_text_file(checkpoint / "below/foreign") == std::string(5, content) &&
                          read_text_file(checkpoint / "below/text") == std::string(3, content);
    return is_whole ? content : '?';
  }

  static void expect_between(const Contents& before, const Contents& after) {
    const fs::path output = disk() / "made/out";
    recover_checkpoints(output);
    Contents found;
    for (const fs::path& checkpoint : list_checkpoints(output))
      found[*checkpoint_step(checkpoint.filename().string())] = content_of(checkpoint);
    for (const int64_t step : {1, 2, 3}) {
      const auto content = [&](const Contents& of) { return of.contains(step) ? of.at(step) : '-'; };
      EXPECT_TRUE(content(found) == content(before) || content(found) == content(after))
          << "checkpoint-" << step << " is " << content(found) << ", was " << content(before) << ", becomes "
          << content(after);
    }
    const LatestCheckpoint latest = latest_checkpoint(output);
    EXPECT_TRUE(latest.skipped.empty()) << latest.skipped[0].reason;
    EXPECT_EQ(latest.step, found.empty() ? 0 : found.rbegin()->first);
    if (!fs::exists(output)) return;
    for (const std::string& name : list_directory(output))
      EXPECT_TRUE(name.starts_with("checkpoint-")) << name;
  }

  // The steps of a run, and what there is after each.
  std::vector<std::function<void()>> steps() {
    return {[&] { save(1, 'a'); },
            [&] { save(2, 'b'); },
            [&] { save(2, 'c'); },
            [&] { save(3, 'd'); },
            [&] { rotate_checkpoints(work() / "made/out", 2, ""); },
            [&] {
              rotate_checkpoints(work() / "made/out", 1, work() / "made/out/checkpoint-2");
              save(1, 'e');
            },
            [&] { remove_checkpoints(work() / "made/out"); }};
  }
  const std::vector<Contents> contents_ = {{},
                                           {{1, 'a'}},
                                           {{1, 'a'}, {2, 'b'}},
                                           {{1, 'a'}, {2, 'c'}},
                                           {{1, 'a'}, {2, 'c'}, {3, 'd'}},
                                           {{2, 'c'}, {3, 'd'}},
                                           {{1, 'e'}, {2, 'c'}, {3, 'd'}},
                                           {}};
};

TEST_F(PowerLossOfCheckpoints, FinishedOnesAreThereAndNoOthers) {
  cut_power(steps(), [&](size_t completed, bool is_under_way) {
    expect_between(contents_[completed], contents_[is_under_way ? completed + 1 : completed]);
  });
  RecordProperty("states", static_cast<int>(states_));
}

// A cut while the start after a cut puts things in order.
TEST_F(PowerLossOfCheckpoints, AlsoDuringRecovery) {
  save(1, 'a');
  save(2, 'b');
  log_.take();
  SimulatedDisk simulated(work());
  save(2, 'c');
  std::set<DiskState> known;
  for (const RecordedOperation& done : log_.take()) {
    simulated.apply(done);
    known.merge(simulated.states());
  }
  std::set<DiskState> recovering;
  for (const DiskState& state : known) {
    write_disk_state(state, disk());
    SimulatedDisk again(disk());
    recover_checkpoints(disk() / "made/out");
    for (const RecordedOperation& done : log_.take()) {
      again.apply(done);
      recovering.merge(again.states());
    }
  }
  EXPECT_GT(recovering.size(), 10U);
  for (const DiskState& state : recovering) {
    if (HasFailure()) break;
    write_disk_state(state, disk());
    expect_between({{1, 'a'}, {2, 'b'}}, {{1, 'a'}, {2, 'c'}});
  }
}

class PowerLossOfAModel : public PowerLoss {
 protected:
  void save(char content, int64_t max_shard_bytes) {
    ManifestUpdate manifest(work());
    write_weights(content, max_shard_bytes);
    write_text_atomic(work() / "config.json", std::string(4, content));
    manifest.commit();
  }
  void write_weights(char content, int64_t max_shard_bytes) {
    SafetensorsModelWriter writer(work(), tensors(), max_shard_bytes);
    append_all(writer, writer.order(), content);
  }

  // The value of all tensors; '?' for a mixture, '-' where there are no weights or they are refused.
  static char weights_on_disk(bool verified) {
    try {
      const SafetensorsModel model = SafetensorsModel::open(disk());
      std::string all;
      for (const SafetensorsFile& file : model.files()) {
        VerifiedTensors verifying(file);
        load_verified(verifying, [&] {
          for (const TensorEntry& tensor : file.tensors()) {
            std::string data(12, '?');
            const auto bytes = std::as_writable_bytes(std::span(data));
            verified ? verifying.read_into(tensor.name, bytes) : file.read_into(tensor.name, bytes);
            all += data;
          }
        });
      }
      return all == std::string(36, all[0]) ? all[0] : '?';
    } catch (const UserError&) {
      return '-';
    }
  }

  static constexpr int64_t kSingleFile = 1000;
  static constexpr int64_t kSharded = 12;
  const std::string contents_ = "-abcdef";
  static std::vector<std::function<void()>> steps(
      const std::function<void(char content, int64_t bytes)>& save) {
    return {[=] { save('a', kSingleFile); }, [=] { save('b', kSingleFile); }, [=] { save('c', kSharded); },
            [=] { save('d', kSharded); },    [=] { save('e', kSingleFile); }, [=] { save('f', kSharded); }};
  }
};

// As another library reads them: no manifest helps it.
TEST_F(PowerLossOfAModel, WeightsAreOldOrNewOrMissingButNoMixture) {
  const auto write = [&](char content, int64_t bytes) { write_weights(content, bytes); };
  cut_power(steps(write), [&](size_t completed, bool is_under_way) {
    const char found = weights_on_disk(false);
    const bool was_single =
        completed == 0 || completed == 1;  // the one step that has no shards before or after
    if (is_under_way) {
      EXPECT_TRUE(found == contents_[completed] || found == contents_[completed + 1] ||
                  (found == '-' && !was_single))
          << found;
    } else {
      EXPECT_EQ(found, contents_[completed]);
    }
  });
}

TEST_F(PowerLossOfAModel, AFinishedSaveIsVerifiedAndAnUnfinishedOneRefused) {
  const auto write = [&](char content, int64_t bytes) { save(content, bytes); };
  cut_power(steps(write), [&](size_t completed, bool is_under_way) {
    const char found = weights_on_disk(true);
    if (!is_under_way) {
      EXPECT_EQ(found, contents_[completed]);
      const SafetensorsModel model = SafetensorsModel::open(disk());
      for (const SafetensorsFile& file : model.files()) EXPECT_TRUE(has_checksum(file.path()));
    } else {
      EXPECT_TRUE(found == '-' || found == contents_[completed] || found == contents_[completed + 1])
          << found;
    }
    const std::string config = found == '-' ? "" : read_text_file(disk() / "config.json");
    EXPECT_EQ(config, found == '-' ? "" : std::string(4, found));
  });
}

TEST_F(PowerLoss, AtomicFilesAreOldOrNew) {
  fs::create_directory(work() / "here");
  const fs::path name = "here/file";
  const std::vector<std::string> contents = {"", std::string(9, 'a'), std::string(5, 'b'),
                                             std::string(7, 'c')};
  work_.write("source", contents[3]);
  cut_power({[&] { write_text_atomic(work() / name, contents[1]); },
             [&] { write_text_atomic(work() / name, contents[2]); },
             [&] { copy_file_atomic(work() / "source", work() / name); }},
            [&](size_t completed, bool is_under_way) {
              const std::string found = fs::exists(disk() / name) ? read_text_file(disk() / name) : "";
              EXPECT_TRUE(found == contents[completed] || (is_under_way && found == contents[completed + 1]))
                  << found;
            });
}

}  // namespace
}  // namespace shoehorn
