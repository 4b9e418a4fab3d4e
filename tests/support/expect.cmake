# Runs the command after `--` and fails unless it exits with STATUS (a number, or `failure` for any
# but 0) and its output matches the regular expression OUTPUT.
cmake_minimum_required(VERSION 3.25)

include("${CMAKE_CURRENT_LIST_DIR}/arguments.cmake")

execute_process(COMMAND ${arguments} RESULT_VARIABLE status
  OUTPUT_VARIABLE output ERROR_VARIABLE output)
message("${output}")
if(STATUS STREQUAL "failure")
  if(status EQUAL 0)
    message(FATAL_ERROR "wanted the command to fail, got status 0: ${arguments}")
  endif()
elseif(NOT status STREQUAL STATUS)
  message(FATAL_ERROR "wanted status ${STATUS}, got ${status}: ${arguments}")
endif()
if(NOT output MATCHES "${OUTPUT}")
  message(FATAL_ERROR "wanted output that matches '${OUTPUT}': ${arguments}")
endif()
