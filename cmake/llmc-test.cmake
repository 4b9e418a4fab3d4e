# How llmc's tests are built and registered.

# The main function and what it maps: see tests/support/main.cpp.
function(llmc_add_test_support)
  add_library(llmc_test_support STATIC support/main.cpp support/running_program.cpp)
  target_include_directories(llmc_test_support PUBLIC "${PROJECT_SOURCE_DIR}/examples")
  target_link_libraries(llmc_test_support PUBLIC llmc::llmc Catch2::Catch2)
  # Where Catch2 is a header all of it is in main.cpp, which optimised takes twice as long to compile.
  set_source_files_properties(support/main.cpp PROPERTIES COMPILE_OPTIONS
    $<$<CXX_COMPILER_ID:GNU,Clang>:-O0>)
  # Catch2 2 is a header, 3 is a library.
  get_target_property(catch_type Catch2::Catch2 TYPE)
  target_compile_definitions(llmc_test_support PUBLIC
    LLMC_CATCH_VERSION=$<IF:$<STREQUAL:${catch_type},INTERFACE_LIBRARY>,2,3>)
endfunction()

function(llmc_add_test_program name)
  add_executable(llmc_test_${name} ${ARGN})
  target_link_libraries(llmc_test_${name} PRIVATE llmc_test_support llmc_warnings)
endfunction()

# A test program that needs no GPU, of the sources given. 77 means that every test case in it was
# skipped.
function(llmc_add_cpu_test name)
  llmc_add_test_program(${name} ${ARGN})
  add_test(NAME cpu.${name} COMMAND llmc_test_${name})
  set_tests_properties(cpu.${name} PROPERTIES SKIP_RETURN_CODE 77 LABELS cpu)
endfunction()

# A test program that needs a GPU, of the sources given or tests/<name>.cu, with an entry in ctest
# for each of these groups that it has:
#
#   gpu.<name>            what needs the GPU; skipped as a whole where there is none
#   gpu.<name>.large      the cases tagged [large], which want the GPU's memory for themselves
#   cpu.<name>.arguments  the cases called "... refuses ...": arguments that are refused before the
#                         GPU is touched, so they run everywhere
#
# Without the split a program with one case that ran would hide that all its others were skipped.
function(llmc_add_gpu_test name)
  set(sources ${ARGN})
  if(NOT sources)
    set(sources ${name}.cu)
  endif()
  llmc_add_test_program(${name} ${sources})
  llmc_add_gpu_entry(gpu.${name} ${name} "~[large]~*refuses*")
  llmc_any_matches(has_large "\\[large\\]" ${sources})
  if(has_large)
    llmc_add_gpu_entry(gpu.${name}.large ${name} "[large]")
  endif()
  llmc_any_matches(has_refusals "TEST_CASE.* refuses " ${sources})
  if(has_refusals)
    add_test(NAME cpu.${name}.arguments COMMAND llmc_test_${name} "*refuses*")
    set_tests_properties(cpu.${name}.arguments PROPERTIES LABELS cpu)
  endif()
endfunction()

function(llmc_add_gpu_entry entry name filter)
  add_test(NAME ${entry} COMMAND ${LLMC_TEST_LAUNCHER} $<TARGET_FILE:llmc_test_${name}> "${filter}")
  set_tests_properties(${entry} PROPERTIES SKIP_RETURN_CODE 77 LABELS gpu RESOURCE_LOCK gpu)
endfunction()

# Whether a line of one of the files matches; looked at again when a file changes.
function(llmc_any_matches result regex)
  set(${result} OFF PARENT_SCOPE)
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
    file(STRINGS "${source}" matches REGEX "${regex}" LIMIT_COUNT 1)
    if(NOT matches STREQUAL "")
      set(${result} ON PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

# llmc_add_expectation(<name> <status> <output> [MOST_LINES <lines>] <command>...): a command that
# must exit with the status given (a number, or `failure` for any but 0) and print what matches the
# regular expression, in at most that many lines.
function(llmc_add_expectation name status output)
  set(command ${ARGN})
  set(most_lines)
  if(ARGV3 STREQUAL "MOST_LINES")
    list(POP_FRONT command most_lines most_lines)
  endif()
  add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} "-DSTATUS=${status}" "-DOUTPUT=${output}"
    "-DMOST_LINES=${most_lines}"
    -P "${PROJECT_SOURCE_DIR}/tests/support/expect.cmake" -- ${command})
  set_tests_properties(${name} PROPERTIES LABELS cpu)
endfunction()
