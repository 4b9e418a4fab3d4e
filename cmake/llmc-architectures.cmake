# Tells a project that uses llmc, in one line while it is configured, when the CUDA architectures that
# it is built for leave out llmc's fastest kernels. CMake's default does. Changes nothing, and says
# nothing where LLMC_CHECK_ARCHITECTURES is off.
cmake_policy(VERSION 3.25)

# What to say about architectures as CMAKE_CUDA_ARCHITECTURES lists them: nothing if they are fine,
# or if that cannot be known, as where the list is OFF and the project passes flags of its own.
function(llmc_architecture_advice result architectures)
  set(${result} "" PARENT_SCOPE)
  list(TRANSFORM architectures REPLACE "^native$" "${CMAKE_CUDA_ARCHITECTURES_NATIVE}")
  list(TRANSFORM architectures REPLACE "^all(-major)?$" "90")  # neither has 90a
  list(TRANSFORM architectures REPLACE "-(real|virtual)$" "")
  list(FILTER architectures INCLUDE REGEX "^[0-9]+[af]?$")
  if(NOT architectures OR "90a" IN_LIST architectures)
    return()
  endif()
  set(with_tensor_cores ${architectures})
  list(FILTER with_tensor_cores INCLUDE REGEX "^([89][0-9]|[1-9][0-9][0-9])[af]?$")
  if(NOT with_tensor_cores)
    set(${result} "llmc's kernels for tensor cores need 80 or later, and 90a on Hopper" PARENT_SCOPE)
  elseif("90" IN_LIST architectures)
    set(${result} "llmc's fastest kernels on Hopper need 90a, which 90 is not" PARENT_SCOPE)
  endif()
endfunction()

# The architectures of all targets in a directory and those below it.
function(llmc_architectures_of_targets result directory)
  set(all)
  get_property(targets DIRECTORY "${directory}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_property(architectures TARGET ${target} PROPERTY CUDA_ARCHITECTURES)
    list(APPEND all ${architectures})
  endforeach()
  get_property(directories DIRECTORY "${directory}" PROPERTY SUBDIRECTORIES)
  foreach(below IN LISTS directories)
    llmc_architectures_of_targets(architectures "${below}")
    list(APPEND all ${architectures})
  endforeach()
  set(${result} "${all}" PARENT_SCOPE)
endfunction()

# To be called at the end of a directory by cmake_language(DEFER), since CUDA may be enabled and
# targets be made after llmc is found.
function(llmc_check_architectures)
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(NOT "CUDA" IN_LIST languages
      OR (DEFINED LLMC_CHECK_ARCHITECTURES AND NOT LLMC_CHECK_ARCHITECTURES))
    return()
  endif()
  # Targets may have other architectures than the variable says.
  llmc_architectures_of_targets(architectures "${CMAKE_CURRENT_BINARY_DIR}")
  llmc_architecture_advice(advice "${CMAKE_CUDA_ARCHITECTURES};${architectures}")
  if(NOT advice)
    return()
  endif()
  list(JOIN CMAKE_CUDA_ARCHITECTURES " and " architectures)
  set(sentence "llmc: CMAKE_CUDA_ARCHITECTURES is ${architectures}, but ${advice}. \
Set it before project(), or LLMC_CHECK_ARCHITECTURES to OFF.")
  get_property(said GLOBAL PROPERTY LLMC_SAID_OF_ARCHITECTURES)
  if(NOT sentence IN_LIST said)
    message(NOTICE "${sentence}")
    set_property(GLOBAL APPEND PROPERTY LLMC_SAID_OF_ARCHITECTURES "${sentence}")
  endif()
endfunction()
