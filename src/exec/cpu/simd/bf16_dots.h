// Dot products of pairs of bf16 (AVX-512 BF16), for kernels with intrinsics of their own.
#pragma once

namespace shoehorn::cpu {

// Whether this processor has them (with AVX-512 F, BW and VL), and they are faster than multiply-adds of fp32.
bool has_fast_bf16_dots();

}  // namespace shoehorn::cpu
