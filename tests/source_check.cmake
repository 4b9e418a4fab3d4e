# Fails where a public header does what launchers promise not to do: launch without checking,
# allocate, synchronise, print or end the process.
set(forbidden "<<<|cudaMalloc|cudaFree|cuda(Device|Stream|Event)Synchronize|[^a-z_]printf *\\(|std::c(out|err)|[^a-z_](exit|abort) *\\(|[^_]assert *\\(")

file(GLOB_RECURSE headers "${INCLUDE_DIR}/*.hpp" "${INCLUDE_DIR}/*.cuh")
if(NOT headers)
  message(FATAL_ERROR "no headers in ${INCLUDE_DIR}")
endif()
foreach(header IN LISTS headers)
  file(STRINGS "${header}" lines REGEX "${forbidden}")
  if(header MATCHES "matmul_context\\.hpp$")
    list(FILTER lines EXCLUDE REGEX "cuda(Malloc|Free)") # its workspace, when it is constructed
  endif()
  foreach(line IN LISTS lines)
    message(SEND_ERROR "${header}: ${line}")
  endforeach()
endforeach()
