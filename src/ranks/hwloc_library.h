// The interface between the program and libshoehorn_hwloc.so, the one part that is linked with hwloc. The program opens it
// where a host's topology is asked for, so that nothing else needs it. Plain C.
#pragma once

namespace shoehorn {

inline constexpr int kHwlocInterfaceVersion = 1;
inline constexpr const char* kHwlocLibraryName = "libshoehorn_hwloc.so";
inline constexpr const char* kHwlocLibraryFunction = "shoehorn_hwloc_topology";

}  // namespace shoehorn

extern "C" {
// This machine as JSON (ranks/host_topology.h), without its name; it stays until the next call. Null if the library is
// built for another interface, or if hwloc fails.
const char* shoehorn_hwloc_topology(int interface_version);
}
