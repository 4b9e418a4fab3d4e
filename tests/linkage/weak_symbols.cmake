# Fails if an object file defines weak symbols, which could be the copies that others run:
#   cmake -DNM=nm -P weak_symbols.cmake -- FILE.o
math(EXPR last "${CMAKE_ARGC} - 1")
execute_process(COMMAND "${NM}" --defined-only "${CMAKE_ARGV${last}}"
  OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL " [WVu] [^\n]*" weak "${symbols}")
if(weak)
  message(FATAL_ERROR "weak symbols: ${weak}")
endif()
message(STATUS "no weak symbols")
