# The target that the workflow preset `train` builds: gpt2_train, run from the build folder.
separate_arguments(arguments NATIVE_COMMAND "${LLMC_TRAIN_ARGUMENTS}")
add_custom_target(llmc_train
  COMMAND gpt2_train ${arguments}
  WORKING_DIRECTORY "${PROJECT_BINARY_DIR}"
  COMMENT "Training in ${PROJECT_BINARY_DIR}"
  USES_TERMINAL VERBATIM)
