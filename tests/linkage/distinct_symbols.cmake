# Fails unless both shared libraries export launchers and kernels of layernorm and no two of these
# have the same name: the loader would merge them.
cmake_minimum_required(VERSION 3.25)

function(exported result library)
  execute_process(COMMAND "${NM}" -D --defined-only "${library}"
    OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^ \n]*layernorm_forward[^ \n]*" symbols "${output}")
  if(NOT symbols)
    message(FATAL_ERROR "${library} exports no launcher, so this test shows nothing")
  endif()
  set(${result} "${symbols}" PARENT_SCOPE)
endfunction()

exported(first "${FIRST}")
exported(second "${SECOND}")
foreach(symbol IN LISTS first)
  if(symbol IN_LIST second)
    message(SEND_ERROR "in both libraries: ${symbol}")
  endif()
endforeach()
