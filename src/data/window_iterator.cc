#include "data/window_iterator.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/rounding.h"

namespace shoehorn {

namespace {

WindowSchedule schedule_of(const Dataset& dataset, const BatchOptions& options) {
  return WindowSchedule({.samples = dataset.epoch_size(),
                         .micro_batch_size = options.micro_batch_size,
                         .gradient_accumulation_steps = options.gradient_accumulation_steps,
                         .drop_last = options.drop_last,
                         .ramp = options.ramp});
}

// Windows that are packed ahead, the one in use included.
int64_t stages_of(const WindowSchedule& schedule, const BatchOptions& options, int64_t num_workers,
                  int64_t prefetch_factor) {
  if (num_workers < 0) throw user_error("[dataloader_num_workers] expected at least 0, got {}", num_workers);
  if (prefetch_factor < 1)
    throw user_error("[dataloader_prefetch_factor] expected at least 1, got {}", prefetch_factor);
  if (num_workers == 0) return 0;
  // No more windows can be ahead than there are in an epoch.
  return std::min(prefetch_factor,
                  options.ramp.empty() ? schedule.steps_in(0) : schedule.micro_batches_per_epoch());
}

// Of this rank, in a window.
int64_t micro_batches_of_stage(const WindowSchedule& schedule, const BatchOptions& options) {
  return ceil_divide(std::min(options.gradient_accumulation_steps, schedule.micro_batches_per_epoch()),
                     int64_t{options.world_size});
}

}  // namespace

WindowNeeds window_needs(const Dataset& dataset, const BatchOptions& options, int64_t num_workers,
                         int64_t prefetch_factor) {
  WindowNeeds needs{.capacity = micro_batch_capacity(dataset, options)};
  const WindowSchedule schedule = schedule_of(dataset, options);
  needs.staging_bytes = stages_of(schedule, options, num_workers, prefetch_factor) *
                        micro_batches_of_stage(schedule, options) *
                        micro_batch_bytes(needs.capacity, dataset.label_shape());
  return needs;
}

WindowIterator::WindowIterator(const Dataset& dataset, Sampler sampler, const BatchOptions& options,
                               int64_t num_workers, int64_t prefetch_factor)
    : dataset_(dataset),
      sampler_(std::move(sampler)),
      options_(options),
      schedule_(schedule_of(dataset, options)) {
  const WindowNeeds needs = window_needs(dataset, options, num_workers, prefetch_factor);
  capacity_ = needs.capacity;
  staging_bytes_ = needs.staging_bytes;
  CHECK(sampler_.size() == dataset.epoch_size(), "a sampler of {} samples for a data set of {}",
        sampler_.size(), dataset.epoch_size());
  order_.resize(static_cast<size_t>(sampler_.size()));
  stages_.resize(static_cast<size_t>(stages_of(schedule_, options, num_workers, prefetch_factor)));
  for (Stage& stage : stages_)
    stage.micro_batches.resize(static_cast<size_t>(micro_batches_of_stage(schedule_, options)));
}

WindowIterator::~WindowIterator() {
  if (!worker_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
  }
  changed_.notify_all();
  worker_.join();
}

void WindowIterator::set_class_weights(std::vector<float> weights) {
  CHECK(!worker_.joinable(), "weights of classes while windows are made");
  class_weights_ = std::move(weights);
}

void WindowIterator::stage_in(std::span<std::byte> memory) {
  CHECK(static_cast<int64_t>(memory.size()) == staging_bytes() && !worker_.joinable(),
        "{} bytes of staging, {} wanted", memory.size(), staging_bytes());
  if (stages_.empty()) return;
  const auto bytes = static_cast<size_t>(micro_batch_bytes(capacity_, dataset_.label_shape()));
  for (Stage& stage : stages_) {
    for (MicroBatch& batch : stage.micro_batches) {
      batch = lay_out_micro_batch(memory.first(bytes), capacity_, dataset_.label_shape());
      memory = memory.subspan(bytes);
    }
  }
  worker_ = std::thread([this] { work(); });
}

int64_t WindowIterator::order_bytes() const {
  return static_cast<int64_t>(order_.capacity() * sizeof(int64_t)) + sampler_.memory_bytes();
}

std::span<const int64_t> WindowIterator::samples_of(int64_t micro_batch) const {
  const int64_t begin = micro_batch * options_.micro_batch_size;
  const int64_t end = std::min(begin + options_.micro_batch_size, sampler_.size());
  return std::span(order_).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

Window WindowIterator::describe(int64_t update_step) const {
  const WindowPlace place = schedule_.place(epoch_, update_step);
  Window window{.epoch = epoch_,
                .update_step = update_step,
                .first_micro_batch = place.first,
                .micro_batches = place.count,
                .last_of_epoch = update_step == schedule_.steps_in(epoch_) - 1};
  const int64_t dealt = ceil_divide(place.count - options_.rank, int64_t{options_.world_size});
  window.own_micro_batches = options_.deals_evenly ? ceil_divide(place.count, int64_t{options_.world_size})
                                                   : std::max<int64_t>(1, dealt);
  window.counted_micro_batches = dealt;
  for (int64_t i = 0; i < window.micro_batches; ++i) {
    for (const int64_t sample : samples_of(place.first + i)) {
      ++window.samples;
      window.tokens += dataset_.length(sample);
      window.target_items += dataset_.target_items(sample);
      if (!options_.divides_by_own_targets || i % options_.world_size == options_.rank)
        window.target_weight += target_weight(dataset_, sample, class_weights_);
    }
  }
  if (dealt == 0) window.target_weight = std::numeric_limits<double>::infinity();
  return window;
}

// Sequences of the micro-batches of a window, of whatever rank, that stand before one of them.
int64_t WindowIterator::sequences_before(const Window& window, int64_t place) const {
  if (dataset_.facts().most_documents == 1) return place * options_.micro_batch_size;
  int64_t sequences = 0;
  for (int64_t i = 0; i < place; ++i) {
    for (const int64_t sample : samples_of(window.first_micro_batch + i))
      sequences += dataset_.source().document_count(sample);
  }
  return sequences;
}

void WindowIterator::pack(const Window& window, int64_t index, MicroBatch& destination) const {
  const int64_t place = (index * options_.world_size + options_.rank) % window.micro_batches;
  pack_micro_batch(dataset_, samples_of(window.first_micro_batch + place), sequences_before(window, place),
                   options_, destination);
}

void WindowIterator::start_epoch(int64_t epoch, int64_t first_update_step) {
  CHECK(stages_.empty() || worker_.joinable(), "no staging was lent");
  const int64_t steps = schedule_.steps_in(epoch);
  CHECK(first_update_step >= 0 && first_update_step <= steps, "update step {} of {}", first_update_step,
        steps);
  std::unique_lock lock(mutex_);
  stop_before_ = 0;
  changed_.wait(lock, [this] { return !busy_; });
  epoch_ = epoch;
  sampler_.epoch_order(epoch, order_);
  has_current_ = false;
  failure_ = nullptr;
  taken_ = staged_ = first_update_step;
  stop_before_ = steps;
  lock.unlock();
  changed_.notify_all();
}

bool WindowIterator::next_window(Window& window) {
  has_current_ = false;
  if (taken_ >= stop_before_) return false;
  if (stages_.empty()) {
    current_ = describe(taken_++);
  } else {
    std::unique_lock lock(mutex_);
    ++taken_;  // which gives the stage of the window before back to the worker
    changed_.notify_all();
    changed_.wait(lock, [this] { return staged_ >= taken_ || failure_ != nullptr; });
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    current_ = stage_of(taken_ - 1).window;
  }
  has_current_ = true;
  window = current_;
  return true;
}

void WindowIterator::load(int64_t index, MicroBatch& destination) {
  CHECK(has_current_ && index >= 0 && index < current_.own_micro_batches, "micro-batch {} of {}", index,
        has_current_ ? current_.own_micro_batches : 0);
  if (stages_.empty()) {
    pack(current_, index, destination);
    return;
  }
  const Stage& stage = stage_of(current_.update_step);
  copy_micro_batch(stage.micro_batches[static_cast<size_t>(index)], destination);
}

void WindowIterator::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    // Window staged_ goes where the window a round of stages before it was, which the caller reads until it
    // has taken the next.
    changed_.wait(lock, [this] {
      return quit_ || (failure_ == nullptr && staged_ < stop_before_ &&
                       staged_ - static_cast<int64_t>(stages_.size()) < taken_ - 1);
    });
    if (quit_) return;
    const int64_t update_step = staged_;
    busy_ = true;
    lock.unlock();
    std::exception_ptr failure;
    try {
      Stage& stage = stage_of(update_step);
      stage.window = describe(update_step);
      for (int64_t i = 0; i < stage.window.own_micro_batches; ++i) {
        pack(stage.window, i, stage.micro_batches[static_cast<size_t>(i)]);
      }
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    busy_ = false;
    failure_ = failure;
    if (failure == nullptr) ++staged_;
    changed_.notify_all();
  }
}

}  // namespace shoehorn
