# Fails where a public header does what launchers promise not to do: launch without checking,
# allocate, synchronise, print or end the process.
cmake_minimum_required(VERSION 3.25)

string(JOIN "|" forbidden
  "<<<" "cudaMalloc" "cudaFree" "cuda(Device|Stream|Event)Synchronize"
  "[^a-z_]printf *\\(" "std::c(out|err)" "[^a-z_](exit|abort) *\\(" "[^_]assert *\\(")

file(GLOB_RECURSE headers "${INCLUDE_DIR}/*.hpp" "${INCLUDE_DIR}/*.cuh")
if(NOT headers)
  message(FATAL_ERROR "no headers in ${INCLUDE_DIR}")
endif()
foreach(header IN LISTS headers)
  file(STRINGS "${header}" lines REGEX "${forbidden}")
  foreach(line IN LISTS lines)
    if(line MATCHES "^ *//")
      continue()
    endif()
    # A context owns memory from its construction on; tuning it allocates, times and waits.
    if(header MATCHES "(matmul_context|matmul/(device_memory|tuning))\\.hpp$"
        AND line MATCHES "cuda(Malloc|Free|StreamSynchronize|EventSynchronize)\\(")
      continue()
    endif()
    message(SEND_ERROR "${header}: ${line}")
  endforeach()
endforeach()
