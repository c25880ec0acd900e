// What a type can hold: the limits of each, and 1/3 and 10**6 in it.
#include <cstdio>

#include "base/float_format.h"

using namespace shoehorn;

int main() {
  for (const FloatFormat& type : float_formats()) {
    std::printf("%-14s max %.5g, smallest normal %.5g, eps %.5g, 1/3 %.16g, 10**6 %g\n", type.name.data(),
                type.max(), type.min_normal(), type.epsilon(), round_to_format(1.0 / 3, type),
                round_to_format(1e6, type));
  }
  return 0;
}
