# Enables CUDA for llmc's own tests and examples: which compiler, and for which architectures. A
# user's choice wins in both.

# The toolkit that was found may not be on PATH, where enable_language(CUDA) looks.
if(NOT DEFINED CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  set(CMAKE_CUDA_COMPILER "${CUDAToolkit_NVCC_EXECUTABLE}" CACHE FILEPATH "CUDA compiler")
endif()

# The compute capabilities of this machine's GPUs, as nvidia-smi names them: 8.6 becomes 86-real.
# Without a GPU, PTX that any GPU from sm_75 on can run, which is also the fastest to compile.
function(llmc_detect_architectures result)
  execute_process(
    COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
    OUTPUT_VARIABLE capabilities ERROR_QUIET RESULT_VARIABLE status)
  if(status EQUAL 0)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]+" capabilities "${capabilities}")
  endif()
  if(NOT status EQUAL 0 OR NOT capabilities)
    set(${result} 75-virtual PARENT_SCOPE)
    return()
  endif()
  list(REMOVE_DUPLICATES capabilities)
  # wgmma and setmaxnreg need the architecture-specific target.
  list(TRANSFORM capabilities REPLACE "^9\\.0$" "9.0a")
  list(TRANSFORM capabilities REPLACE "^([0-9]+)\\.(.*)$" "\\1\\2-real")
  set(${result} "${capabilities}" PARENT_SCOPE)
endfunction()

if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
  llmc_detect_architectures(architectures)
  set(CMAKE_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "GPU architectures to build for")
  message(STATUS "llmc: building for CUDA architectures ${architectures}")
endif()

enable_language(CUDA)
