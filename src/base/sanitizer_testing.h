// Whether a test runs under AddressSanitizer.
#pragma once

namespace shoehorn::test_support {

// A sanitizer needs memory that no plan knows of (shadow, quarantine), and its code is slow.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace shoehorn::test_support
