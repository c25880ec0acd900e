// Which instruction sets the vector kernels are compiled for. Include before any Highway header.
//
// AVX2 with FMA is the least machine we support; AVX-512 (F, BW, DQ, VL) is chosen at run time where it
// exists. Naming AVX2 as the baseline keeps Highway from compiling a scalar copy of every kernel, so a
// program that uses these kernels must refuse to start where the processor lacks AVX2.
#pragma once

#ifdef HWY_BASELINE_TARGETS
#error "include exec/cpu/simd/simd_targets.h before Highway's headers"
#endif

#define HWY_BASELINE_TARGETS HWY_AVX2
