// --profile N: when each node of N optimizer steps ran, and what the host did between them; written as a
// trace (report/trace_file.h) and summed by op. Of an evaluation run a batch is a step.
//
// Everything is reserved by the constructor, before the memory forecast, so that its bytes are part of the
// process's predicted overhead and recording allocates nothing. A node begins where the one before it ended:
// the recording's own time (a read of the clock) is part of the node.
//
//   profile.begin_step(1);
//   profile.begin_run(program, counts); … profile.node_done(); … profile.end_run();
//   profile.end_step();
//   profile.write("profile.json");
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/op_info.h"
#include "session/session.h"

namespace shoehorn {

// What the host does in a step besides running programs.
enum class HostWork : uint8_t { kDataWait, kLogging, kEvaluation, kCheckpoint };
std::string_view host_work_name(HostWork work);

// Of the steady clock.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct OpTime {
  std::string name;
  int64_t calls = 0;
  double seconds = 0;
  double flops = 0;
  double bytes = 0;  // read and written
};

class StepProfile {
 public:
  // `session` outlives the profile. At most `steps` steps are recorded; further ones are passed over.
  StepProfile(const Session& session, int64_t steps);

  // Bytes that the recording holds.
  int64_t reserved_bytes() const;
  int64_t recorded_steps() const { return static_cast<int64_t>(steps_.size()); }
  bool is_recording() const { return is_recording_; }

  // A step that began at `begin_seconds`; nothing is recorded once all steps are.
  void begin_step(int64_t number, double begin_seconds);
  void end_step();
  // Around each program of a step.
  void begin_run(ProgramId program, std::span<const int64_t> counts);
  void end_run() { is_running_ = false; }
  void node_done() {
    if (is_running_) node_ends_[used_nodes_++] = now_seconds();
  }
  void host_work(HostWork work, double begin_seconds, double end_seconds);

  // Calls function(node in its program, its cost with the counts that ran, its seconds) for every node that
  // was recorded.
  void each_node(const std::function<void(const OpContext&, const Cost&, double seconds)>& function) const;
  // Most time first. Flops and bytes are those of the counts that ran.
  std::vector<OpTime> by_op() const;
  double recorded_seconds() const;

  // The trace; SystemError if it cannot be written.
  void write(const std::filesystem::path& path) const;

 private:
  struct Step {
    int64_t number;
    double begin;
    double end;
  };
  struct Run {
    const Program* program;
    double begin;
    size_t first_node;   // in node_ends_
    size_t first_count;  // in counts_
  };
  struct HostSlice {
    HostWork work;
    double begin;
    double end;
  };

  // What the nodes of a run cost with the counts it had.
  std::vector<Cost> costs_of(const Run& run) const;
  double end_of(const Run& run) const;
  template <typename Function>
  void for_each_node(const Function& function) const;

  const Session& session_;
  bool is_recording_ = false;
  bool is_running_ = false;
  size_t most_steps_;
  std::vector<Step> steps_;
  std::vector<Run> runs_;
  std::vector<HostSlice> host_;
  std::vector<int64_t> counts_;
  std::vector<double> node_ends_;  // its pages are touched
  size_t used_nodes_ = 0;
};

// Time, share, calls, GFLOP/s and GB/s by op.
std::string format_profile(const StepProfile& profile);

}  // namespace shoehorn
