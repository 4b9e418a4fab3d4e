# How llmc's tests are built and registered.

# The main function and what it maps: see tests/support/main.cpp.
function(llmc_add_test_support)
  add_library(llmc_test_support STATIC support/main.cpp)
  target_link_libraries(llmc_test_support PUBLIC llmc::llmc Catch2::Catch2)
endfunction()

# A test program tests/<name>.cu, one ctest entry. 77 means that every test case in it was skipped.
function(llmc_add_gpu_test name)
  add_executable(llmc_test_${name} ${name}.cu)
  target_link_libraries(llmc_test_${name} PRIVATE llmc_test_support llmc_warnings)
  add_test(NAME gpu.${name} COMMAND llmc_test_${name})
  set_tests_properties(gpu.${name} PROPERTIES SKIP_RETURN_CODE 77 LABELS gpu)
endfunction()

# A test program that needs no GPU, of the sources given.
function(llmc_add_cpu_test name)
  add_executable(llmc_test_${name} ${ARGN})
  target_link_libraries(llmc_test_${name} PRIVATE llmc_test_support llmc_warnings)
  add_test(NAME cpu.${name} COMMAND llmc_test_${name})
  set_tests_properties(cpu.${name} PROPERTIES SKIP_RETURN_CODE 77 LABELS cpu)
endfunction()
