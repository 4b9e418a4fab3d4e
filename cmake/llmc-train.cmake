# The target that the workflow preset `train` builds: gpt2_train, run from the build folder, so that
# Ctrl-C reaches it alone.
add_executable(llmc_foreground EXCLUDE_FROM_ALL "${CMAKE_CURRENT_LIST_DIR}/foreground.cpp")
target_compile_features(llmc_foreground PRIVATE cxx_std_17)
separate_arguments(arguments NATIVE_COMMAND "${LLMC_TRAIN_ARGUMENTS}")
add_custom_target(llmc_train
  COMMAND llmc_foreground $<TARGET_FILE:gpt2_train> ${arguments}
  DEPENDS gpt2_train
  WORKING_DIRECTORY "${PROJECT_BINARY_DIR}"
  COMMENT "Training in ${PROJECT_BINARY_DIR}"
  USES_TERMINAL VERBATIM)
