// The backend that toy programs and toy training runs are tested on: the CPU in cross_room_test, the guarded
// device in guarded_device_test.
#pragma once

#include <memory>

#include "exec/backend/backend.h"

namespace shoehorn::test_support {

std::shared_ptr<const Backend> conformance_backend(int threads);

}  // namespace shoehorn::test_support
