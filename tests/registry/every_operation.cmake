# Checks what `kernel_bench list` names, which is the command after `--`; no GPU is needed.
#
#  - Every launcher that has variants, `<launcher>_variants` in the headers of SOURCE_DIR, is there.
#  - So is every launcher that the trainer's backend calls.
#  - Every operation has a place for its table in a page of docs/layers.
cmake_minimum_required(VERSION 3.25)

include("${CMAKE_CURRENT_LIST_DIR}/../support/arguments.cmake")

execute_process(COMMAND ${arguments} OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)

# Every name that a line of the files holds where `regex` has its group must be an operation's.
function(require_operations regex)
  set(count 0)
  foreach(file IN LISTS ARGN)
    file(STRINGS "${file}" lines REGEX "${regex}")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "${regex}.*" "\\1" operation "${line}")
      if(operation MATCHES "_workspace_bytes$")
        continue()
      endif()
      math(EXPR count "${count} + 1")
      if(NOT output MATCHES "(^|\n)${operation},")
        message(SEND_ERROR "${file} has ${operation}, which the registry lacks")
      endif()
    endforeach()
  endforeach()
  if(count EQUAL 0)
    message(FATAL_ERROR "nothing matches ${regex} in ${ARGN}")
  endif()
endfunction()

file(GLOB headers "${SOURCE_DIR}/include/llmc/*.cuh")
require_operations("^inline constexpr [a-z:]+&? ([a-z_]+)_variants" ${headers})
require_operations("^ +llmc::([a-z_]+)\\(" "${SOURCE_DIR}/examples/gpt2/machine/cuda/cuda_backend.cu")

set(pages "")
file(GLOB files "${SOURCE_DIR}/docs/layers/*.md")
foreach(file IN LISTS files)
  file(READ "${file}" page)
  string(APPEND pages "${page}")
endforeach()
string(REGEX MATCHALL "[a-z_]+, [0-9]+ entries" operations "${output}")
foreach(operation IN LISTS operations)
  string(REGEX REPLACE ",.*" "" operation "${operation}")
  if(NOT pages MATCHES "<!-- kernel_bench: ${operation} -->")
    message(SEND_ERROR "no page in docs/layers has a place for ${operation}")
  endif()
endforeach()
