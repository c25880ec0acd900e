#include "conformance_backend.h"

#include "guarded_device.h"

namespace shoehorn::test_support {

std::shared_ptr<const Backend> conformance_backend(int threads) {
  return std::make_shared<const GuardedDevice>(threads);
}

}  // namespace shoehorn::test_support
