// `testing` is gtest's namespace within shoehorn, too. A namespace of shoehorn of that name would hide gtest's from the files that
// are compiled behind it, and is an error here.
#pragma once

namespace testing {}
namespace shoehorn {
namespace testing = ::testing;
namespace cpu {
namespace testing = ::testing;
}
}  // namespace shoehorn
