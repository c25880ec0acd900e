# What the library links to. Read by the build, and by those who use an installed Shoehorn (shoehorn-config.cmake).
include(${CMAKE_CURRENT_LIST_DIR}/SystemLibrary.cmake)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(dnnl REQUIRED)
find_package(hwy REQUIRED)
find_package(fmt REQUIRED)
shoehorn_system_library(utf8proc utf8proc.h utf8proc)
shoehorn_system_library(xxhash xxhash.h xxhash)
set(SHOEHORN_DEPENDENCIES DNNL::dnnl hwy::hwy fmt::fmt utf8proc::utf8proc xxhash::xxhash OpenMP::OpenMP_CXX)
