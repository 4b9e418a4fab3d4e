# Warnings for llmc's own tests and examples. Linked privately and never exported: a user's project
# gets no flags from llmc.
add_library(llmc_warnings INTERFACE)
set(warnings -Wall -Wextra -Wconversion -Wshadow -Wswitch)
if(LLMC_WARNINGS_AS_ERRORS)
  list(APPEND warnings -Werror)
  target_compile_options(llmc_warnings INTERFACE
    $<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:--Werror=all-warnings>)
endif()
list(JOIN warnings "," joined)
target_compile_options(llmc_warnings INTERFACE
  "$<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang>:${warnings}>"
  "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-Xcompiler=${joined}>")
