# Fails unless the command after `--`, which is `kernel_bench list` on a machine that need not have
# a GPU, names every launcher that has variants: each `<launcher>_variants` of the headers in
# INCLUDE_DIR.
cmake_minimum_required(VERSION 3.25)

include("${CMAKE_CURRENT_LIST_DIR}/../support/arguments.cmake")

execute_process(COMMAND ${arguments} OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
file(GLOB headers "${INCLUDE_DIR}/llmc/*.cuh")
set(count 0)
foreach(header IN LISTS headers)
  file(STRINGS "${header}" lines REGEX "^inline constexpr std::array [a-z_]+_variants")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE ".* ([a-z_]+)_variants.*" "\\1" operation "${line}")
    math(EXPR count "${count} + 1")
    if(NOT output MATCHES "(^|\n)${operation},")
      message(SEND_ERROR "${header} has ${operation}, which the registry lacks")
    endif()
  endforeach()
endforeach()
if(count EQUAL 0)
  message(FATAL_ERROR "no variants in ${INCLUDE_DIR}")
endif()
