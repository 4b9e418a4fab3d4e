# Chooses CMAKE_CUDA_ARCHITECTURES for llmc's own tests and examples, before CUDA is enabled. A
# user's choice wins; else what nvidia-smi says is in this machine; else PTX that any GPU from
# sm_75 on can run.
if(DEFINED CMAKE_CUDA_ARCHITECTURES OR DEFINED ENV{CUDAARCHS})
  return()
endif()

execute_process(
  COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
  OUTPUT_VARIABLE capabilities OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
  RESULT_VARIABLE status)
set(architectures)
if(status EQUAL 0 AND capabilities MATCHES "^[0-9]+\\.[0-9]+")
  string(REGEX MATCHALL "[0-9]+\\.[0-9]+" capabilities "${capabilities}")
  list(REMOVE_DUPLICATES capabilities)
  foreach(capability IN LISTS capabilities)
    string(REPLACE "." "" architecture "${capability}")
    if(architecture EQUAL 90)
      set(architecture 90a) # wgmma and setmaxnreg need the architecture-specific target
    endif()
    list(APPEND architectures ${architecture}-real)
  endforeach()
else()
  set(architectures 75-virtual)
endif()
set(CMAKE_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "GPU architectures to build for")
message(STATUS "llmc: building for CUDA architectures ${architectures}")
