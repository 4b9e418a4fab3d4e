# Fails where a header breaks a rule of the sources, which no compiler knows: what launchers promise
# not to do, and which rooms may include which.
cmake_minimum_required(VERSION 3.25)

file(GLOB_RECURSE headers RELATIVE "${INCLUDE_DIR}" "${INCLUDE_DIR}/*.hpp" "${INCLUDE_DIR}/*.cuh")
if(NOT headers)
  message(FATAL_ERROR "no headers in ${INCLUDE_DIR}")
endif()

# Fails for each line of code that matches `forbidden`, in the headers whose path below INCLUDE_DIR
# matches `where`, unless it matches `allowed`, where that is given.
function(forbid where forbidden)
  foreach(header IN LISTS headers)
    if(NOT header MATCHES "${where}")
      continue()
    endif()
    file(STRINGS "${INCLUDE_DIR}/${header}" lines REGEX "${forbidden}")
    foreach(line IN LISTS lines)
      if(line MATCHES "^ *//" OR (ARGC GREATER 2 AND line MATCHES "${ARGV2}"))
        continue()
      endif()
      message(SEND_ERROR "${header}: ${line}")
    endforeach()
  endforeach()
endfunction()

# A compiler that cannot compile kernels stops at the first include.
foreach(header IN LISTS headers)
  file(STRINGS "${INCLUDE_DIR}/${header}" first REGEX "^#include" LIMIT_COUNT 1)
  if(header MATCHES "cuh$" AND NOT first STREQUAL "#include <llmc/detail/cuda_only.hpp>")
    message(SEND_ERROR "${header} does not include cuda_only.hpp first: ${first}")
  endif()
endforeach()

# A launcher neither launches without checking, nor allocates, synchronises, prints or ends the
# process. A context owns memory from its construction on; tuning it allocates, times and waits.
set(context "(matmul_context|matmul/(device_memory|tuning)|matmul/context/[a-z_]+)\\.hpp$")
string(JOIN "|" never "<<<" "cudaDeviceSynchronize" "[^a-z_]printf *\\(" "std::c(out|err)"
  "[^a-z_](exit|abort) *\\(" "[^_]assert *\\(")
set(of_a_context "cuda(Malloc|Free|StreamSynchronize|EventSynchronize)")
forbid("." "${never}")
list(FILTER headers EXCLUDE REGEX "${context}")
forbid("." "${of_a_context}")

# device/ is device code: it launches nothing, and includes nothing that does.
set(vocabulary "<llmc/(detail/(cuda_only|namespace)|types|error)\\.hpp>")
forbid("^llmc/device/" "namespace detail|[^a-z_]launch *\\(|cudaLaunch|__global__")
forbid("^llmc/device/" "#include <llmc/" "<llmc/device/|${vocabulary}")

# detail/ holds host halves and kernels: what users may call in kernels of theirs is elsewhere.
forbid("^llmc/detail/" "namespace device")

# A layer's header includes no other layer's, and detail/ none at all. That of products with GELU
# continues that of products.
forbid("^llmc/detail/" "#include <llmc/[a-z_]+\\.cuh>")
forbid("^llmc/matmul_gelu\\.cuh$" "#include <llmc/[a-z_]+\\.cuh>" "<llmc/matmul\\.cuh>")
list(FILTER headers EXCLUDE REGEX "^llmc/(llmc|matmul_gelu)\\.cuh$")
forbid("^llmc/[a-z_]+\\.cuh$" "#include <llmc/[a-z_]+\\.cuh>")

# The CPU reference is for who asks for it, and knows no CUDA.
forbid("^llmc/(detail/|device/|[a-z_]+\\.)" "#include <llmc/reference/")
forbid("^llmc/reference/" "#include <(cuda|.*\\.cuh)|__device__")

# Each launcher with variants has a test that spoils its arguments in turn: see
# support/spoilt_arguments.hpp.
file(GLOB tests "${CMAKE_CURRENT_LIST_DIR}/*.cu")
set(text)
foreach(test IN LISTS tests)
  file(READ "${test}" more)
  string(APPEND text "${more}")
endforeach()
file(GLOB layers "${INCLUDE_DIR}/llmc/*.cuh")
foreach(layer IN LISTS layers)
  file(STRINGS "${layer}" lines REGEX "^inline constexpr std::array [a-z_]+_variants")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE ".* ([a-z_]+)_variants.*" "\\1" launcher "${line}")
    if(NOT text MATCHES "check_refusals\\([ \n]*\"llmc::${launcher}\"")
      message(SEND_ERROR "no test spoils the arguments of ${launcher}")
    endif()
  endforeach()
endforeach()
