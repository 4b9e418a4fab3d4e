# Fails if the file (object or shared library) offers a kernel of llmc's, or its launcher LAUNCHER,
# to other files: the linker or the loader would merge two of one name.
cmake_minimum_required(VERSION 3.25)

function(symbols result pattern)
  execute_process(COMMAND "${NM}" ${ARGN} "${FILE}"
    OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]*4llmc[^\n]*(${pattern})[^\n]*" lines "${output}")
  set(${result} "${lines}" PARENT_SCOPE)
endfunction()

# The name of a kernel, which is a template in all layers.
set(kernel "_kernelI")
symbols(kernels "${kernel}" --defined-only)
if(NOT kernels)
  message(SEND_ERROR "${FILE} has no kernel of llmc's, so this test shows nothing")
endif()
symbols(offered "${kernel}|${LAUNCHER}" --defined-only --extern-only)
foreach(symbol IN LISTS offered)
  message(SEND_ERROR "${FILE} offers ${symbol}")
endforeach()
