// --profile N: records when each node of N optimizer steps ran, lane by lane, and what the host did in between. The record
// is written as a trace (report/trace_file.h) and summed by op. In an evaluation run a step is a batch.
//
// The constructor reserves all memory, before the memory forecast. So these bytes are part of the process's
// predicted overhead, and recording allocates nothing. On lane 0 a node begins where the previous one ended, but one that waits
// for another lane where that wait ends: the time of the recording itself (reading the clock) counts as the node's.
//
//   profile.begin_step(1);
//   executor.run(program, counts, profile.begin_run(program, counts));
//   profile.end_step();
//   profile.write("profile.json");
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/message_overlap.h"
#include "base/now_seconds.h"
#include "ops/op_info.h"
#include "session/session.h"

namespace shoehorn {

// What the host does in a step besides running programs.
enum class HostWork : uint8_t { kDataWait, kLogging, kEvaluation, kCheckpoint };
std::string_view host_work_name(HostWork work);

struct OpTime {
  std::string name;
  int32_t lane = 0;
  int64_t calls = 0;
  double seconds = 0;
  double flops = 0;
  double bytes = 0;  // read and written
};

class StepProfile {
 public:
  // `session` must outlive the profile. It records at most `steps` steps and ignores further ones.
  StepProfile(const Session& session, int64_t steps);

  // Size of the recording's memory.
  int64_t reserved_bytes() const;
  int64_t recorded_steps() const { return static_cast<int64_t>(steps_.size()); }
  bool is_recording() const { return is_recording_; }

  // Starts a step that began at `begin_seconds`. Does nothing once all steps are recorded.
  void begin_step(int64_t number, double begin_seconds);
  void end_step();
  // Forgets the step that was begun, of which a stop left the rest out.
  void drop_step();
  // Call it before each program of a step, and give the result to Executor::run; nothing where no step is recorded.
  std::span<NodeTimes> begin_run(ProgramId program, std::span<const int64_t> counts);
  void host_work(HostWork work, double begin_seconds, double end_seconds);

  // Calls function(node in its program, its cost with the counts of the run, its seconds) for every recorded
  // node.
  void each_node(const std::function<void(const OpContext&, const Cost&, double seconds)>& function) const;
  // By lane, and then by time, longest first. Flops and bytes are for the counts of the runs.
  std::vector<OpTime> by_op() const;
  double recorded_seconds() const;
  // Of at least one recorded step.
  double median_step_seconds() const;
  // In which lane 0 waited for other lanes.
  double waited_seconds() const;
  // Of all runs but evaluations.
  MessageOverlap message_overlap() const;

  // Writes the trace; SystemError if that fails.
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
    size_t first_node;   // in times_
    size_t first_count;  // in counts_
  };
  struct HostSlice {
    HostWork work;
    double begin;
    double end;
  };

  // The cost of each node of a run, with the counts of that run.
  std::vector<Cost> costs_of(const Run& run) const;
  std::span<const NodeTimes> times_of(const Run& run) const;
  double end_of(const Run& run) const;
  template <typename Function>
  void for_each_node(const Function& function) const;
  // Calls function(begin, end) for each time that lane 0 waited for another lane.
  template <typename Function>
  void for_each_wait(const Function& function) const;

  const Session& session_;
  bool is_recording_ = false;
  size_t most_steps_;
  std::vector<Step> steps_;
  std::vector<Run> runs_;
  std::vector<HostSlice> host_;
  std::vector<int64_t> counts_;
  std::vector<NodeTimes> times_;  // its pages are touched at construction
  size_t used_nodes_ = 0;
};

// The op, and whether it ran beside lane 0.
std::string op_name(const OpTime& op);

// A table by op: time, share, calls, GFLOP/s and GB/s.
std::string format_profile(const StepProfile& profile);
// {"steps", "seconds", "ops": [{"op", "lane", "calls", "seconds", "flops", "bytes"}]}, of all steps together.
nlohmann::json to_json(const StepProfile& profile);

}  // namespace shoehorn
