# Each header compiles alone, and all of them link into one program twice: every header is also
# included by one file that includes them all, so a function that lacks `inline` is defined twice.
# The CUDA files are compiled with -rdc=true, where that holds for device functions too.
#
# That file defines, before llmc's headers and after all others, the macros that systems and
# libraries are known for, so a header that uses such a name does not compile. Where it needs one,
# as in std::min, it is put in parentheses: (std::min)(a, b).

set(llmc_foreign_macros
  "min(a,b)" "max(a,b)" small near far hyper interface ERROR NO_ERROR IN OUT OPTIONAL CONST VOID TRUE
  FALSE DELETE STRICT ABSOLUTE RELATIVE TRANSPARENT OPAQUE pascal cdecl rad1 grp1     # windows.h
  "major(x)" "minor(x)" "makedev(x,y)" "MIN(a,b)" "MAX(a,b)" "howmany(x,y)" "roundup(x,y)"
  "isset(a,b)" unix linux B0 B50 B110 ECHO PAGE_SIZE                   # glibc, termios.h, Linux
  I complex imaginary DOMAIN OVERFLOW UNDERFLOW HUGE                                # C's library
  None Bool Status Success True False Always Complex Bounds Cursor Window                    # X11
  slots signals emit "foreach(a,b)" forever                                                   # Qt
  EPS PI SQ "SQR(x)" "SWAP(a,b)" BLOCK_SIZE WARP_SIZE "CEIL_DIV(a,b)" "CHECK(x)" LOG) # users' own

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
  llmc_write_includes(all.cu "${headers}" FOREIGN_MACROS)
  list(FILTER headers INCLUDE REGEX "\\.hpp$")
  llmc_write_includes(all.cpp "${headers}" FOREIGN_MACROS)

  llmc_add_gpu_test(${name} ${sources} ${ARGN})
  set_target_properties(llmc_test_${name} PROPERTIES CUDA_SEPARABLE_COMPILATION ON)
  # PTX alone cannot be linked.
  if(CMAKE_CUDA_ARCHITECTURES STREQUAL "75-virtual")
    set_target_properties(llmc_test_${name} PROPERTIES CUDA_ARCHITECTURES 75)
  endif()
endfunction()

# Writes a source file that includes the headers, and adds it to `sources` of the caller. With
# FOREIGN_MACROS the file defines those, after the headers that llmc's headers include.
function(llmc_write_includes source headers)
  set(source "${CMAKE_CURRENT_BINARY_DIR}/headers/${source}")
  set(content)
  if("FOREIGN_MACROS" IN_LIST ARGN)
    foreach(header IN LISTS headers)
      file(STRINGS "${PROJECT_SOURCE_DIR}/include/${header}" lines REGEX "^#include <")
      list(APPEND content ${lines})
    endforeach()
    list(FILTER content EXCLUDE REGEX "<llmc/")
    list(REMOVE_DUPLICATES content)
    list(REMOVE_ITEM content "#include <omp.h>")  # which is included with OpenMP only
    foreach(macro IN LISTS llmc_foreign_macros)
      string(REGEX REPLACE "\\(.*" "" name "${macro}")
      list(APPEND content "#undef ${name}" "#define ${macro} %%")  # no code can have that
    endforeach()
  endif()
  list(TRANSFORM headers REPLACE "(.+)" "#include <\\1>")
  list(JOIN content "\n" content)
  list(JOIN headers "\n" includes)
  file(CONFIGURE OUTPUT "${source}" CONTENT "${content}\n${includes}\n" @ONLY)
  set(sources ${sources} "${source}" PARENT_SCOPE)
endfunction()
