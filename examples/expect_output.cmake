# Runs an example's program and fails unless it exits with 0 and prints what is expected. CTest's own
# PASS_REGULAR_EXPRESSION looks at the output alone.
#
#   cmake -D PROGRAM=FILE -D OUTPUT=REGEX -P expect_output.cmake -- [the program's arguments]
set(arguments)
set(is_argument FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  if(is_argument)
    list(APPEND arguments "${CMAKE_ARGV${i}}")
  elseif("${CMAKE_ARGV${i}}" STREQUAL "--")
    set(is_argument TRUE)
  endif()
endforeach()

execute_process(COMMAND "${PROGRAM}" ${arguments} RESULT_VARIABLE exit_code OUTPUT_VARIABLE output ERROR_VARIABLE error)
message("${output}${error}")
if(NOT exit_code EQUAL 0)
  message(FATAL_ERROR "expected exit code 0, got ${exit_code}")
endif()
if(NOT "${output}${error}" MATCHES "${OUTPUT}")
  message(FATAL_ERROR "expected output that matches ${OUTPUT}")
endif()
