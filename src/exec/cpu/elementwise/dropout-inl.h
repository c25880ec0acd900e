// Draws the dropout masks of a row of activations, a block of columns at a time, inside kernels that apply
// them to values in registers. Include it after hwy/foreach_target.h, once per target.
#if defined(SHOEHORN_EXEC_CPU_DROPOUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SHOEHORN_EXEC_CPU_DROPOUT_INL_H_
#undef SHOEHORN_EXEC_CPU_DROPOUT_INL_H_
#else
#define SHOEHORN_EXEC_CPU_DROPOUT_INL_H_
#endif

#include "exec/cpu/elementwise/elementwise.h"
#include "exec/cpu/simd/philox_simd-inl.h"
#include "exec/cpu/simd/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

// Columns per draw of mask bits: long enough to amortise the generator's start-up, short enough for a buffer
// on the stack.
inline constexpr int64_t kMaskColumns = 2048;

// Replays the masks of one stream at one step.
class DropoutReplay {
 public:
  explicit DropoutReplay(const Dropout& dropout)
      : dropout_(dropout),
        key_(philox_key(dropout.seed, *dropout.step, dropout.stream_id)),
        threshold_(drop_threshold(dropout.p)),
        scale_(keep_scale(dropout.p)) {}

  // Draws the mask of columns [begin, end) of a row; end - begin <= kMaskColumns, begin a multiple of 8.
  HWY_INLINE void draw(int64_t row, int64_t begin, int64_t end) {
    const PhiloxRow counter{key_, static_cast<uint32_t>(dropout_.position[row]),
                            static_cast<uint32_t>(dropout_.sample[row]), 0};
    begin_ = begin;
    philox_keep_bits(counter, threshold_, begin, end - begin, keep_bits_);
  }

  // Kept elements times the scale, dropped ones 0, for a vector at `column` of what was drawn last.
  HWY_INLINE FloatVector apply(FloatVector value, int64_t column) const {
    const auto keep = philox_keep_mask(FloatTag(), keep_bits_, column - begin_);
    return hn::IfThenElseZero(keep, hn::Mul(value, set(scale_)));
  }

 private:
  const Dropout& dropout_;
  PhiloxKey key_;
  uint32_t threshold_;
  float scale_;
  int64_t begin_ = 0;
  alignas(8) uint8_t keep_bits_[philox_keep_bytes(kMaskColumns)];
};

// Takes the place of DropoutReplay if p is 0, so that both cases share one kernel.
class NoDropout {
 public:
  explicit NoDropout(const Dropout&) {}
  HWY_INLINE void draw(int64_t, int64_t, int64_t) {}
  HWY_INLINE FloatVector apply(FloatVector value, int64_t) const { return value; }
};

// Calls body(column, lanes) for all columns of a row; the mask of each block is drawn before.
template <class Replay, class Body>
HWY_INLINE void for_masked_columns(Replay& replay, int64_t row, int64_t columns, const Body& body) {
  for (int64_t begin = 0; begin < columns; begin += kMaskColumns) {
    const int64_t end = HWY_MIN(begin + kMaskColumns, columns);
    replay.draw(row, begin, end);
    for_columns(begin, end, body);
  }
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
