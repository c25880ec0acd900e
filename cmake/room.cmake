# A room is a folder of the pipeline: one library from its sources, one test program from its *_test.cc,
# one micro-benchmark program from its *_bench.cc (where Google Benchmark is installed). Links are given in the direction
# data flows.
#
#   shoehorn_room(NAME [FOLDERS that belong to it too] LINKS other rooms and libraries [TEST_LINKS what only the tests use]
#                [TEST_REFERENCES | TESTS_TRAIN] [SEPARATE_FILES] [RUNS_BRIEFLY])
#
# gives shoehorn_NAME, and where there are such files NAME_test (registered with CTest) and NAME_bench. TEST_REFERENCES: the
# tests compute references that take long; TESTS_TRAIN: they use the trainer.
#
# The files of a room are compiled several at a time, but those that are being worked on (compiled_together.cmake). So no two
# files of a room have names of their own that clash, and no two of its tests, and each file includes what it uses (`make
# check-alone`). SEPARATE_FILES: those of this room are compiled once a processor type, each for itself; so are
# all benches. RUNS_BRIEFLY: code around the work, whose time is that of the compiler: it is optimized a little.
include(${CMAKE_CURRENT_LIST_DIR}/compiled_together.cmake)

# What many files include is compiled once: room_headers for the rooms, test_headers for their tests. A compiled header
# serves targets with the same flags only, so that all of them have OpenMP's, and rooms that are optimized a little have their
# own. Sanitizers build without.
set(SHOEHORN_OPTIMIZED_A_LITTLE $<$<CONFIG:Release>:-O1>)
foreach(headers room_headers brief_room_headers)
  add_library(${headers} OBJECT ${CMAKE_CURRENT_LIST_DIR}/compiled_headers.cc)
  target_link_libraries(${headers} PRIVATE fmt::fmt OpenMP::OpenMP_CXX)
  target_precompile_headers(${headers} PRIVATE
    <fmt/format.h> <algorithm> <array> <filesystem> <functional> <map> <memory> <optional> <span> <string> <vector>)
endforeach()
target_compile_options(brief_room_headers PRIVATE ${SHOEHORN_OPTIMIZED_A_LITTLE})

# Every change links some forty programs, of tests and of examples, which nobody installs: lld (make setup-dev has it) takes a
# third of GNU ld's time. The program itself is GNU ld's, which also finds a library that stands before its user.
find_program(SHOEHORN_LLD ld.lld)
function(shoehorn_link_fast target)
  if(SHOEHORN_LLD)
    target_link_options(${target} PRIVATE -fuse-ld=lld)
  endif()
endfunction()

# Tests are built often and run briefly: they are not optimized, and those that compute references a little.
function(shoehorn_test_settings target headers)
  target_link_libraries(${target} PRIVATE fmt::fmt GTest::gtest GTest::gtest_main OpenMP::OpenMP_CXX)
  shoehorn_link_fast(${target})
  shoehorn_compile_together(${target} 16)
  if(headers STREQUAL reference_test_headers)
    target_compile_options(${target} PRIVATE ${SHOEHORN_OPTIMIZED_A_LITTLE})
  else()
    target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O0>)
  endif()
  if(NOT target STREQUAL headers)
    target_precompile_headers(${target} REUSE_FROM ${headers})
  endif()
endfunction()

# Headers with inline functions of their own cost each file that has them, used or not: JSON's are with the tests that train,
# most of which use it.
foreach(headers test_headers reference_test_headers training_test_headers)
  add_library(${headers} OBJECT ${CMAKE_CURRENT_LIST_DIR}/compiled_headers.cc)
  shoehorn_test_settings(${headers} ${headers})
  target_precompile_headers(${headers} PRIVATE
    <gtest/gtest.h> ${CMAKE_CURRENT_LIST_DIR}/gtest_namespace.h <fmt/format.h>
    <algorithm> <filesystem> <functional> <string> <vector>)
endforeach()
target_include_directories(training_test_headers PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_precompile_headers(training_test_headers PRIVATE <nlohmann/json.hpp> ${PROJECT_SOURCE_DIR}/src/train/trainer.h)

function(shoehorn_room name)
  cmake_parse_arguments(ARG "TEST_REFERENCES;TESTS_TRAIN;SEPARATE_FILES;RUNS_BRIEFLY" "" "FOLDERS;LINKS;TEST_LINKS" ${ARGN})
  set(places ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  foreach(folder ${ARG_FOLDERS})
    list(APPEND places ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cc)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${places})
  set(tests ${sources})
  set(benches ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(_test|_bench)\\.cc$")

  if(sources)
    add_library(shoehorn_${name} STATIC ${sources})
    set_property(GLOBAL APPEND PROPERTY SHOEHORN_ROOMS ${name})
    set(headers room_headers)
    if(ARG_RUNS_BRIEFLY)
      set(headers brief_room_headers)
      target_compile_options(shoehorn_${name} PRIVATE ${SHOEHORN_OPTIMIZED_A_LITTLE})
    endif()
    if(ARG_SEPARATE_FILES)
      set_target_properties(shoehorn_${name} PROPERTIES UNITY_BUILD OFF)
    else()
      shoehorn_compile_together(shoehorn_${name} 12)
    endif()
    target_include_directories(shoehorn_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(shoehorn_${name} PUBLIC ${ARG_LINKS} PRIVATE OpenMP::OpenMP_CXX)
    if(NOT SHOEHORN_SANITIZE)
      target_precompile_headers(shoehorn_${name} REUSE_FROM ${headers})
    endif()
  else()
    add_library(shoehorn_${name} INTERFACE)
    target_include_directories(shoehorn_${name} INTERFACE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(shoehorn_${name} INTERFACE ${ARG_LINKS})
  endif()

  if(tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE shoehorn_${name} ${ARG_TEST_LINKS})
    if(ARG_TEST_REFERENCES)
      shoehorn_test_settings(${name}_test reference_test_headers)
    elseif(ARG_TESTS_TRAIN)
      shoehorn_test_settings(${name}_test training_test_headers)
    else()
      shoehorn_test_settings(${name}_test test_headers)
    endif()
    target_compile_definitions(${name}_test PRIVATE
      SHOEHORN_SOURCE_DIR="${PROJECT_SOURCE_DIR}" SHOEHORN_SHARED_DIR="${PROJECT_SOURCE_DIR}/../shared")
    add_test(NAME ${name}_test COMMAND ${name}_test)
  endif()
  if(benches AND benchmark_FOUND)
    add_executable(${name}_bench ${benches})
    set_target_properties(${name}_bench PROPERTIES UNITY_BUILD OFF)
    target_link_libraries(${name}_bench PRIVATE shoehorn_${name} benchmark::benchmark benchmark::benchmark_main)
  endif()
endfunction()
