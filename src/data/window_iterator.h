// Effective batches, one after the other: what an optimizer step is made of.
//
// A window is gradient_accumulation_steps micro-batches, or on a ramp as many as window_schedule.h says; the
// last one of an epoch may be shorter, and its last micro-batch smaller, as in the Hugging Face Trainer. The
// number of target items of the whole window is known before its first micro-batch is read, so that losses
// can divide by it.
//
//   WindowIterator windows(dataset, sampler, options, dataloader_num_workers);
//   for (windows.start_epoch(0); windows.next_window(window);)
//     for (int64_t i = 0; i < window.micro_batches; ++i) windows.load(i, batch);
//
// With num_workers 0 a micro-batch is packed straight into the caller's memory. With more, one thread of our
// own packs the next windows while the caller computes; it never enters OpenMP. It packs them into memory of
// the caller's, staging_bytes() for two windows, or as many as prefetch_factor says and an epoch has, the one
// in use included; stage_in() lends it before the first epoch. Both ways give the same bytes. (Packing is a
// copy: one thread is always enough.)
//
// After construction nothing allocates. One thread uses the object; data set and staging must outlive it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "data/batch.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include "data/window_schedule.h"

namespace shoehorn {

struct Window {
  int64_t epoch = 0;
  int64_t update_step = 0;        // within the epoch
  int64_t first_micro_batch = 0;  // within the epoch
  int64_t micro_batches = 0;  // gradient_accumulation_steps, or fewer on a ramp and at the end of an epoch
  int64_t samples = 0;
  int64_t tokens = 0;        // real tokens of the input
  int64_t target_items = 0;  // labels that count, over the whole window
  bool last_of_epoch = false;
};

class WindowIterator {
 public:
  // UserError: an option out of range, a sample longer than pad_to_max_length, drop_last that leaves nothing.
  WindowIterator(const Dataset& dataset, Sampler sampler, const BatchOptions& options,
                 int64_t num_workers = 0, int64_t prefetch_factor = 2);
  ~WindowIterator();
  WindowIterator(const WindowIterator&) = delete;
  WindowIterator& operator=(const WindowIterator&) = delete;

  const WindowSchedule& schedule() const { return schedule_; }
  const BatchCapacity& capacity() const { return capacity_; }

  // Bytes of staging that the worker needs; 0 without one.
  int64_t staging_bytes() const;
  // Lends them, aligned as the elements of a batch are, and starts the worker.
  void stage_in(std::span<std::byte> memory);

  // Goes to window `first_update_step` of an epoch, for resuming in its middle; no earlier window is looked
  // at.
  void start_epoch(int64_t epoch, int64_t first_update_step = 0);

  // The next window of the epoch that start_epoch began; false after its last one.
  bool next_window(Window& window);

  // Micro-batch `index` of the current window, into memory of the caller's with room for capacity(). Any
  // order, any number of times, until the next call of next_window or start_epoch.
  void load(int64_t index, MicroBatch& destination);

  // Bytes held besides the data set: the epoch's order and the sampler's tables.
  int64_t order_bytes() const;

 private:
  // What the worker has made ready: a window and its packed micro-batches.
  struct Stage {
    Window window;
    std::vector<MicroBatch> micro_batches;
  };

  std::span<const int64_t> samples_of(int64_t micro_batch) const;
  Window describe(int64_t update_step) const;
  int64_t sequences_before(const Window& window, int64_t index) const;
  void pack(const Window& window, int64_t index, MicroBatch& destination) const;
  int64_t stage_micro_batches() const;
  Stage& stage_of(int64_t update_step) { return stages_[static_cast<size_t>(update_step) % stages_.size()]; }
  void work();

  const Dataset& dataset_;
  Sampler sampler_;
  BatchOptions options_;
  BatchCapacity capacity_;
  WindowSchedule schedule_;

  std::vector<int64_t> order_;  // the epoch's; read by the worker while it is busy
  int64_t epoch_ = 0;
  Window current_;
  bool has_current_ = false;

  // Update steps of the epoch, guarded by mutex_. The caller has taken those below taken_ and may still read
  // the last of them; the worker has staged those below staged_, at most a stage each from that one on.
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
