# Finds what tests and examples need. Nothing is downloaded unless LLMC_FETCH is on; what is missing
# turns off what needs it, with one line that names the package to install.

# llmc_find(<package> <debian package> <url> <sha256> <option that needs it>)
function(llmc_find package debian url sha256 option)
  if(NOT ${option})
    return()
  endif()
  if(LLMC_FETCH)
    include(FetchContent)
    FetchContent_Declare(${package} URL ${url} URL_HASH SHA256=${sha256}
      FIND_PACKAGE_ARGS NAMES ${package})
    FetchContent_MakeAvailable(${package})
  else()
    find_package(${package} QUIET)
    if(NOT ${package}_FOUND)
      message(WARNING "llmc: ${package} was not found, so ${option} is off: "
        "install it (Debian and Ubuntu: apt-get install ${debian}) or configure with -DLLMC_FETCH=ON")
      set(${option} OFF PARENT_SCOPE)
    endif()
  endif()
endfunction()

find_package(Catch2 QUIET)
