#include "guarded_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>

#include "base/error.h"
#include "base/now_seconds.h"
#include "exec/backend/host_arena.h"
#include "exec/backends.h"

namespace shoehorn::test_support {

namespace {

class LazyStream;

class LazyEvent final : public Event {
 public:
  void wait() const override;

  const LazyStream* stream = nullptr;
  int64_t position = 0;  // pieces of work before it
};

// Runs nothing but what is before a position that somebody waits for; an eager one all of it at once.
class LazyStream final : public Stream {
 public:
  explicit LazyStream(bool is_eager) : is_eager_(is_eager) {}

  void record(Event& event) override {
    auto& mark = dynamic_cast<LazyEvent&>(event);
    mark.stream = this;
    mark.position = issued_;
  }
  void wait(const Event& event) override {
    const auto& mark = dynamic_cast<const LazyEvent&>(event);
    if (mark.stream == nullptr) return;
    issue([stream = mark.stream, position = mark.position] { stream->run_until(position); });
  }
  void mark(double& seconds) override {
    issue([&seconds] { seconds = now_seconds(); });
  }
  void issue(std::function<void()> work) {
    work_.push_back(std::move(work));
    ++issued_;
    if (is_eager_) run_until(issued_);
  }
  void run_until(int64_t position) const {
    while (done_ < position) {
      const std::function<void()> next = std::move(work_.front());
      work_.pop_front();
      next();
      ++done_;
    }
  }

 private:
  bool is_eager_;
  mutable std::deque<std::function<void()>> work_;
  int64_t issued_ = 0;
  mutable int64_t done_ = 0;
};

void LazyEvent::wait() const {
  if (stream != nullptr) stream->run_until(position);
}

LazyStream& lazy(Stream& stream) {
  return dynamic_cast<LazyStream&>(stream);
}

}  // namespace

// The arenas of the device's memory, closed but while an Opening lives.
class GuardedDevice::Guard {
 public:
  class GuardedArena final : public Arena {
   public:
    GuardedArena(Guard& guard, int64_t bytes) : guard_(guard), memory_(bytes) {
      guard_.arenas_.push_back(this);
      protect(PROT_NONE);
    }
    ~GuardedArena() override { std::erase(guard_.arenas_, this); }
    GuardedArena(const GuardedArena&) = delete;
    GuardedArena& operator=(const GuardedArena&) = delete;

    int64_t bytes() const override { return memory_.bytes(); }
    std::byte* address() const override { return memory_.address(); }
    std::byte* host() const override { return nullptr; }
    int64_t resident_bytes() const override { return memory_.resident_bytes(); }

    void protect(int protection) const {
      const int64_t page = sysconf(_SC_PAGESIZE);
      const int64_t length = (bytes() + page - 1) / page * page;
      CHECK(mprotect(address(), static_cast<size_t>(length), protection) == 0, "mprotect failed");
    }

   private:
    Guard& guard_;
    HostArena memory_;
  };

  class Opening {
   public:
    explicit Opening(const Guard& guard) : guard_(guard) {
      for (const GuardedArena* arena : guard_.arenas_) arena->protect(PROT_READ | PROT_WRITE);
    }
    ~Opening() {
      for (const GuardedArena* arena : guard_.arenas_) arena->protect(PROT_NONE);
    }
    Opening(const Opening&) = delete;
    Opening& operator=(const Opening&) = delete;

   private:
    const Guard& guard_;
  };

  const std::vector<GuardedArena*>& arenas() const { return arenas_; }

 private:
  std::vector<GuardedArena*> arenas_;
};

GuardedDevice::GuardedDevice(int threads, GuardedStreams streams)
    : cpu_(make_backend(kDefaultBackend, threads)),
      cpu_stream_(cpu_->make_stream()),
      machine_(cpu_->machine()),
      streams_(streams),
      guard_(std::make_unique<Guard>()) {
  machine_.backend = "guarded";
  machine_.device_is_host = false;
}

GuardedDevice::~GuardedDevice() = default;

std::vector<const Arena*> GuardedDevice::device_arenas() const {
  return {guard_->arenas().begin(), guard_->arenas().end()};
}

int64_t GuardedDevice::workspace_bytes(const Program& program, const Node& node) const {
  return cpu_->workspace_bytes(program, node);
}

std::unique_ptr<Arena> GuardedDevice::reserve(AddressSpace space, int64_t bytes) const {
  if (space == AddressSpace::kDevice) return std::make_unique<Guard::GuardedArena>(*guard_, bytes);
  return cpu_->reserve(space, bytes);
}

std::unique_ptr<Stream> GuardedDevice::make_stream() const {
  const bool is_first = !has_first_stream_;
  has_first_stream_ = true;
  return std::make_unique<LazyStream>(streams_ == GuardedStreams::kEager && !is_first);
}

std::unique_ptr<Event> GuardedDevice::make_event() const {
  return std::make_unique<LazyEvent>();
}

void GuardedDevice::copy_to_host(const std::byte* from, std::span<std::byte> to, Stream& stream) const {
  lazy(stream).issue([this, from, to] {
    const Guard::Opening open(*guard_);
    cpu_->copy_to_host(from, to, *cpu_stream_);
  });
}

void GuardedDevice::copy_from_host(std::span<const std::byte> from, std::byte* to, Stream& stream) const {
  lazy(stream).issue([this, from, to] {
    const Guard::Opening open(*guard_);
    cpu_->copy_from_host(from, to, *cpu_stream_);
  });
}

void GuardedDevice::fill(std::byte* to, int64_t bytes, std::byte value, Stream& stream) const {
  lazy(stream).issue([this, to, bytes, value] {
    const Guard::Opening open(*guard_);
    cpu_->fill(to, bytes, value, *cpu_stream_);
  });
}

void GuardedDevice::compile(const Program& program, const Node& node) const {
  cpu_->compile(program, node);
}

void GuardedDevice::release_unused_code() const {
  cpu_->release_unused_code();
}

PreparedNode GuardedDevice::prepare(const Program& program, const Node& node, const NodeBuffers& buffers,
                                    Stream& stream) const {
  const auto kernel =
      std::make_shared<const PreparedNode>(cpu_->prepare(program, node, buffers, *cpu_stream_));
  return [this, kernel, &queue = lazy(stream), length = program.counts().size()](const int64_t* counts) {
    queue.issue([this, kernel, copied = std::vector<int64_t>(counts, counts + length)] {
      const Guard::Opening open(*guard_);
      (*kernel)(copied.data());
    });
  };
}

int64_t GuardedDevice::measure_overhead_bytes(AddressSpace space) const {
  return cpu_->measure_overhead_bytes(space);
}

MachineLimits GuardedDevice::measure_limits() const {
  return cpu_->measure_limits();
}

std::vector<ArithmeticPeak> GuardedDevice::measure_arithmetic_peaks() const {
  return cpu_->measure_arithmetic_peaks();
}

int64_t GuardedDevice::rows_of_full_tiles(DType operands) const {
  return cpu_->rows_of_full_tiles(operands);
}

}  // namespace shoehorn::test_support
