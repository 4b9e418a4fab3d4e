# Each header compiles alone, and all of them link into one program twice: every header is also
# included by one file that includes them all, so a function that lacks `inline` is defined twice.
# The CUDA files are compiled with -rdc=true, where that holds for device functions too.

# llmc_add_header_tests(<program> <file with main or test cases>...)
function(llmc_add_header_tests name)
  set(include_dir "${PROJECT_SOURCE_DIR}/include")
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE "${include_dir}"
    "${include_dir}/*.hpp" "${include_dir}/*.cuh")
  # This one is what refuses to be compiled by anything but nvcc: see tests/compile_fail.
  list(REMOVE_ITEM headers llmc/detail/cuda_only.hpp)

  set(sources)
  foreach(header IN LISTS headers)
    cmake_path(GET header EXTENSION LAST_ONLY extension)
    if(extension STREQUAL ".cuh")
      set(source "${header}.cu")
    else()
      set(source "${header}.cpp")
    endif()
    llmc_write_includes("${source}" "${header}")
  endforeach()
  llmc_write_includes(all.cu "${headers}")
  list(FILTER headers INCLUDE REGEX "\\.hpp$")
  llmc_write_includes(all.cpp "${headers}")

  llmc_add_gpu_test(${name} ${sources} ${ARGN})
  set_target_properties(llmc_test_${name} PROPERTIES CUDA_SEPARABLE_COMPILATION ON)
  # PTX alone cannot be linked.
  if(CMAKE_CUDA_ARCHITECTURES STREQUAL "75-virtual")
    set_target_properties(llmc_test_${name} PROPERTIES CUDA_ARCHITECTURES 75)
  endif()
endfunction()

# Writes a source file that includes the headers, and adds it to `sources` of the caller.
function(llmc_write_includes source headers)
  set(source "${CMAKE_CURRENT_BINARY_DIR}/headers/${source}")
  list(TRANSFORM headers REPLACE "(.+)" "#include <\\1>")
  list(JOIN headers "\n" content)
  file(CONFIGURE OUTPUT "${source}" CONTENT "${content}\n" @ONLY)
  set(sources ${sources} "${source}" PARENT_SCOPE)
endfunction()
