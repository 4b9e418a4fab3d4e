# Runs the command after `--` and fails unless it exits with STATUS (a number, or `failure` for any
# but 0) and its output matches the regular expression OUTPUT and has at most MOST_LINES lines, where
# that is given. The output is shown only then, so that what it says of tests that fail or are
# skipped on purpose is not taken for ours.
cmake_minimum_required(VERSION 3.25)

include("${CMAKE_CURRENT_LIST_DIR}/arguments.cmake")

execute_process(COMMAND ${arguments} RESULT_VARIABLE status
  OUTPUT_VARIABLE output ERROR_VARIABLE output)

function(fail reason)
  message("${output}")
  message(FATAL_ERROR "${reason}: ${arguments}")
endfunction()

if(STATUS STREQUAL "failure")
  if(status EQUAL 0)
    fail("wanted the command to fail, got status 0")
  endif()
elseif(NOT status STREQUAL STATUS)
  fail("wanted status ${STATUS}, got ${status}")
endif()
if(NOT output MATCHES "${OUTPUT}")
  fail("wanted output that matches '${OUTPUT}'")
endif()
if(MOST_LINES)
  string(REGEX MATCHALL "\n" lines "${output}")
  list(LENGTH lines count)
  if(count GREATER MOST_LINES)
    fail("wanted at most ${MOST_LINES} lines, got ${count}")
  endif()
endif()
