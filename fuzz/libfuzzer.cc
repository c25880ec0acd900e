// The program around one reader for libFuzzer (https://llvm.org/docs/LibFuzzer.html), which has main().
#include <cstddef>
#include <cstdint>

#include "fuzz/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const shoehorn::fuzz::Reader reader = shoehorn::fuzz::readers().begin()->second;
  shoehorn::fuzz::accepts(reader, {reinterpret_cast<const char*>(data), size});
  return 0;
}
