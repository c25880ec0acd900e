// The instruction sets that vector kernels are compiled for. Include it before any Highway header.
//
// AVX2 with FMA is the minimum that we support; AVX-512 (F, BW, DQ, VL) is chosen at run time if the
// processor has it. Declaring AVX2 as the baseline keeps Highway from compiling a scalar copy of every
// kernel. So a program that uses these kernels must refuse to start on a processor without AVX2.
#pragma once

#ifdef HWY_BASELINE_TARGETS
#error "include exec/cpu/simd/simd_targets.h before Highway's headers"
#endif

#define HWY_BASELINE_TARGETS HWY_AVX2
