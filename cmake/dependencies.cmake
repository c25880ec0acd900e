# What the library links to. Read by the build, and by those who use an installed Shoehorn (shoehorn-config.cmake).
include(${CMAKE_CURRENT_LIST_DIR}/SystemLibrary.cmake)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(dnnl REQUIRED)
find_package(hwy REQUIRED)
find_package(fmt REQUIRED)
shoehorn_system_library(utf8proc utf8proc.h utf8proc)
shoehorn_system_library(xxhash xxhash.h xxhash)
shoehorn_system_library(pcre2 pcre2.h pcre2-8)
shoehorn_system_library(zlib zlib.h z)
shoehorn_system_library(zstd zstd.h zstd)
set(SHOEHORN_DEPENDENCIES DNNL::dnnl hwy::hwy fmt::fmt utf8proc::utf8proc xxhash::xxhash pcre2::pcre2 zlib::zlib zstd::zstd
  OpenMP::OpenMP_CXX)
