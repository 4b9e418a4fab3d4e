# Finds what tests and examples need. Nothing is downloaded unless LLMC_FETCH is on.

# The Debian and Ubuntu package of each, and where LLMC_FETCH gets it.
set(llmc_Catch2_debian catch2)
set(llmc_Catch2_git https://github.com/catchorg/Catch2.git v3.7.1)
set(llmc_CLI11_debian libcli11-dev)
set(llmc_CLI11_git https://github.com/CLIUtils/CLI11.git v2.4.2)
set(llmc_nlohmann_json_debian nlohmann-json3-dev)
set(llmc_nlohmann_json_git https://github.com/nlohmann/json.git v3.11.3)

# Uses an installed package where there is one and downloads it where there is not.
function(llmc_fetch package)
  include(FetchContent)
  list(GET llmc_${package}_git 0 repository)
  list(GET llmc_${package}_git 1 tag)
  FetchContent_Declare(${package} GIT_REPOSITORY ${repository} GIT_TAG ${tag} GIT_SHALLOW ON
    SYSTEM FIND_PACKAGE_ARGS)
  FetchContent_MakeAvailable(${package})
endfunction()

# llmc_find(<option> <package>...): finds what that option needs. Where something is missing, one
# line says how to get it and the option is turned off; with LLMC_REQUIRE_DEPENDENCIES configuring
# stops there.
function(llmc_find option)
  set(missing)
  foreach(package IN LISTS ARGN)
    if(LLMC_FETCH)
      llmc_fetch(${package})
    else()
      find_package(${package} QUIET)
      if(NOT ${package}_FOUND)
        list(APPEND missing ${llmc_${package}_debian})
      endif()
    endif()
  endforeach()
  if(NOT missing)
    return()
  endif()
  list(JOIN missing " " missing)
  set(advice "apt-get install ${missing}, or configure with -DLLMC_FETCH=ON")
  if(LLMC_REQUIRE_DEPENDENCIES)
    message(FATAL_ERROR "llmc: ${option} needs packages that were not found: ${advice}")
  endif()
  message(NOTICE "llmc: ${option} is off, for it needs packages that were not found: ${advice}")
  set(${option} OFF PARENT_SCOPE)
endfunction()

if(LLMC_BUILD_TESTS)
  llmc_find(LLMC_BUILD_TESTS Catch2)
endif()
if(LLMC_BUILD_EXAMPLES)
  llmc_find(LLMC_BUILD_EXAMPLES CLI11 nlohmann_json)
endif()
