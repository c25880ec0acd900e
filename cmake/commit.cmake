# Writes a header into OUTPUT that says which commit of SOURCE is built. The file changes only where the commit does, so that
# a build without a new one compiles nothing.
#
#   cmake -D SOURCE=… -D OUTPUT=… -P commit.cmake
set(commit unknown)
set(commit_date "")
find_program(git git)
if(git AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${git} -C ${SOURCE} log -1 --format=%h\ %cs OUTPUT_VARIABLE said
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed AND said MATCHES "^([0-9a-f]+) ([0-9-]+)$")
    set(commit ${CMAKE_MATCH_1})
    set(commit_date ${CMAKE_MATCH_2})
    execute_process(COMMAND ${git} -C ${SOURCE} diff --quiet HEAD ERROR_QUIET RESULT_VARIABLE differs)
    if(differs)
      string(APPEND commit "+changes")
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[// Made by cmake/commit.cmake.
#pragma once

namespace shoehorn {

inline constexpr const char* kCommit = "@commit@";
inline constexpr const char* kCommitDate = "@commit_date@";

}  // namespace shoehorn
]])
