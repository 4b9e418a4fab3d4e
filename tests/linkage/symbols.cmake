# Fails if the shared library offers a kernel or launcher of llmc's, or any helper of theirs, to
# others: the loader would merge two of one name.
cmake_minimum_required(VERSION 3.25)

function(symbols result pattern)
  execute_process(COMMAND "${NM}" ${ARGN} "${FILE}"
    OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]* _ZNK?4llmc[^\n]*(${pattern})[^\n]*" lines "${output}")
  set(${result} "${lines}" PARENT_SCOPE)
endfunction()

# A kernel is a template in all layers, and nvcc's name for an unnamed namespace is _GLOBAL__N_.
symbols(kernels "_kernelI" --defined-only)
if(NOT kernels)
  message(SEND_ERROR "${FILE} has no kernel of llmc's, so this test shows nothing")
endif()
symbols(offered "_kernelI|_GLOBAL__N_" -D --defined-only)
foreach(symbol IN LISTS offered)
  message(SEND_ERROR "${FILE} offers ${symbol}")
endforeach()
