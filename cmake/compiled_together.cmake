# Which sources of a target are compiled together: a clean build takes half of the processor's time, and a change of one
# source compiles nothing but it.
#
#   shoehorn_compile_together(TARGET COUNT)
#
# With -DCMAKE_UNITY_BUILD=ON, as `make` configures, TARGET's sources are compiled COUNT at a time. The first configuration
# of a build folder decides which, in the order of their names, and writes it to compiled_together.txt there, a line each:
#
#   TARGET GROUP SOURCE
#
# Later ones read it. A source whose group is `alone`, or that came later, is compiled alone; one that is gone leaves its
# group. So no other group changes. scripts/compile_alone.sh, which `make` runs before it builds, writes `alone` where a
# source differs from the last commit. A commit changes nothing. Remove the file to group all sources anew.
set(SHOEHORN_TOGETHER_FILE ${PROJECT_BINARY_DIR}/compiled_together.txt)
if(CMAKE_UNITY_BUILD)
  if(NOT EXISTS ${SHOEHORN_TOGETHER_FILE})
    file(TOUCH ${SHOEHORN_TOGETHER_FILE})
  endif()
  file(STRINGS ${SHOEHORN_TOGETHER_FILE} SHOEHORN_TOGETHER)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${SHOEHORN_TOGETHER_FILE})
endif()

function(shoehorn_compile_together target count)
  if(NOT CMAKE_UNITY_BUILD)
    return()
  endif()
  set(lines ${SHOEHORN_TOGETHER})
  list(FILTER lines INCLUDE REGEX "^${target} ")
  if(NOT lines)
    get_target_property(sources ${target} SOURCES)
    set(place 0)
    foreach(source ${sources})
      cmake_path(ABSOLUTE_PATH source NORMALIZE)
      cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
      math(EXPR group "${place} / ${count}")
      math(EXPR place "${place} + 1")
      list(APPEND lines "${target} ${group} ${source}")
    endforeach()
    list(JOIN lines "\n" text)
    file(APPEND ${SHOEHORN_TOGETHER_FILE} "${text}\n")
  endif()
  foreach(line ${lines})
    if(line MATCHES "^[^ ]+ ([0-9]+) (.+)$")
      set_source_files_properties(${PROJECT_SOURCE_DIR}/${CMAKE_MATCH_2} PROPERTIES UNITY_GROUP ${CMAKE_MATCH_1})
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
endfunction()
