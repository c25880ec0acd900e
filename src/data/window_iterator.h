// Iterates over the effective batches (windows) of an epoch. An optimizer step takes one window.
//
// A window has gradient_accumulation_steps micro-batches, or on a ramp as many as window_schedule.h says. The
// last window of an epoch may have fewer, and its last micro-batch may be smaller, as in the Hugging Face
// Trainer. The number of targets in the whole window is known before its first micro-batch is packed; the
// loss divides by it.
//
// Where ranks share the windows, they deal the micro-batches in turn: rank r runs those with the numbers r, r + N, …
// Samples, tokens and targets are counted over all of them, so that each rank divides by the same number.
//
//   WindowIterator windows(dataset, sampler, options, dataloader_num_workers);
//   for (windows.start_epoch(0); windows.next_window(window);)
//     for (int64_t i = 0; i < window.own_micro_batches; ++i) windows.load(i, batch);
//
// With num_workers 0 a micro-batch is packed directly into the caller's memory. Otherwise one thread of the
// iterator packs the next windows while the caller computes; it never enters OpenMP. (Packing is a copy, so
// one thread is always enough.) It packs into memory that the caller lends before the first epoch with
// stage_in(): staging_bytes(), room for prefetch_factor windows (or all of an epoch, if fewer), including the
// one in use. Both ways produce the same bytes.
//
// Nothing is allocated after construction. One thread uses the object. Data set and staging memory must
// outlive it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "data/batch.h"
#include "data/class_weights.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include "data/window_schedule.h"

namespace shoehorn {

struct Window {
  int64_t epoch = 0;
  int64_t update_step = 0;        // within the epoch
  int64_t first_micro_batch = 0;  // within the epoch
  int64_t micro_batches =
      0;  // of all ranks: as many as planned, or fewer on a ramp and at the end of an epoch
  // What this rank runs of them. At least one: where there are fewer than ranks, it runs another's, which does not count.
  int64_t own_micro_batches = 0;
  int64_t counted_micro_batches = 0;  // the first so many of them are its own
  int64_t samples = 0;
  int64_t tokens = 0;        // real tokens of the input
  int64_t target_items = 0;  // labels that count, over the whole window
  // The sum of their classes' weights, of the rank's own micro-batches where it divides by these
  // (BatchOptions::divides_by_own_targets); their number where classes have none. Infinite for a rank that runs another's
  // micro-batch: divided by it, that adds nothing to losses and gradients.
  double target_weight = 0;
  bool last_of_epoch = false;
};

// What windows need besides their order, which takes 8 bytes a sample: a search that plans hundreds of runs makes no order.
struct WindowNeeds {
  BatchCapacity capacity = {};  // of any micro-batch
  int64_t staging_bytes = 0;    // of the windows that are packed ahead; 0 without a worker
};

// UserError: an option out of range, a sample longer than pad_to_max_length, drop_last that leaves nothing.
WindowNeeds window_needs(const Dataset& dataset, const BatchOptions& options, int64_t num_workers = 0,
                         int64_t prefetch_factor = 2);

class WindowIterator {
 public:
  // UserError: as window_needs().
  WindowIterator(const Dataset& dataset, Sampler sampler, const BatchOptions& options,
                 int64_t num_workers = 0, int64_t prefetch_factor = 2);
  ~WindowIterator();
  WindowIterator(const WindowIterator&) = delete;
  WindowIterator& operator=(const WindowIterator&) = delete;

  // Weights of the classes that labels name, one a class, for the windows' target_weight. Call it before the first epoch.
  void set_class_weights(std::vector<float> weights);

  const WindowSchedule& schedule() const { return schedule_; }
  const BatchCapacity& capacity() const { return capacity_; }

  // Size of the staging memory that the worker needs; 0 without a worker.
  int64_t staging_bytes() const { return staging_bytes_; }
  // Lends the memory, aligned for the elements of a batch, and starts the worker.
  void stage_in(std::span<std::byte> memory);

  // Starts an epoch. With first_update_step it starts at that window (to resume in the middle of an epoch),
  // without reading the earlier ones.
  void start_epoch(int64_t epoch, int64_t first_update_step = 0);

  // Moves to the next window of the epoch; false after the last one.
  bool next_window(Window& window);

  // Packs this rank's micro-batch `index` of the current window into the caller's memory, which has room for capacity().
  // In any order and as often as wanted, until the next call of next_window or start_epoch.
  void load(int64_t index, MicroBatch& destination);

  // Size of the epoch's order and of the sampler's tables: what this object holds besides the data set.
  int64_t order_bytes() const;

 private:
  // A window and its packed micro-batches, ready for the caller.
  struct Stage {
    Window window;
    std::vector<MicroBatch> micro_batches;
  };

  std::span<const int64_t> samples_of(int64_t micro_batch) const;
  Window describe(int64_t update_step) const;
  int64_t sequences_before(const Window& window, int64_t place) const;
  void pack(const Window& window, int64_t index, MicroBatch& destination) const;
  Stage& stage_of(int64_t update_step) { return stages_[static_cast<size_t>(update_step) % stages_.size()]; }
  void work();

  const Dataset& dataset_;
  Sampler sampler_;
  BatchOptions options_;
  BatchCapacity capacity_;
  WindowSchedule schedule_;
  int64_t staging_bytes_ = 0;
  std::vector<float> class_weights_;

  std::vector<int64_t> order_;  // the epoch's order; the worker reads it while busy_
  int64_t epoch_ = 0;
  Window current_;
  bool has_current_ = false;

  // Update steps of the epoch, guarded by mutex_. The caller has taken all steps below taken_ and may still
  // read the last one taken. The worker has packed all steps below staged_.
  std::vector<Stage> stages_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t taken_ = 0;
  int64_t staged_ = 0;
  int64_t stop_before_ = 0;
  bool busy_ = false;
  bool quit_ = false;
  std::exception_ptr failure_;
  std::thread worker_;
};

}  // namespace shoehorn
