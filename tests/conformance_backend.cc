#include "conformance_backend.h"

#include "exec/backends.h"

namespace shoehorn::test_support {

std::shared_ptr<const Backend> conformance_backend(int threads) {
  return make_backend(kDefaultBackend, threads);
}

}  // namespace shoehorn::test_support
