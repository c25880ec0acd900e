// The interface between the program and libshoehorn_hwloc.so, the one part that is linked with hwloc. The program opens it
// where a host's topology is asked for, so that nothing else needs it. Plain C.
#pragma once

namespace shoehorn {

inline constexpr int kHwlocInterfaceVersion = 2;
inline constexpr const char* kHwlocLibraryName = "libshoehorn_hwloc.so";
inline constexpr const char* kHwlocTopologyFunction = "shoehorn_hwloc_topology";
inline constexpr const char* kHwlocSharesFunction = "shoehorn_hwloc_shares";

}  // namespace shoehorn

extern "C" {
// This machine as JSON (ranks/host_topology.h), without its name; it stays until the next call. Null if the library is
// built for another interface, or if hwloc fails.
const char* shoehorn_hwloc_topology(int interface_version);
// The processors that this process may run on, cut into so many shares whose processors are near each other: a JSON array of
// lists ("0-3,8"). There are as many processors or more. Null, and how long it stays: as above.
const char* shoehorn_hwloc_shares(int interface_version, int shares);
}
