# Configures, builds and runs the project in SOURCE_DIR, in a fresh BUILD_DIR, with the arguments
# after `--` for its configuration. The project's program is called `consumer`; one that has none
# tests what configuring finds.
cmake_minimum_required(VERSION 3.25)

include("${CMAKE_CURRENT_LIST_DIR}/../support/arguments.cmake")

file(REMOVE_RECURSE "${BUILD_DIR}")
execute_process(COMMAND ${CMAKE_COMMAND} -S "${SOURCE_DIR}" -B "${BUILD_DIR}" ${arguments}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build "${BUILD_DIR}" COMMAND_ERROR_IS_FATAL ANY)
if(EXISTS "${BUILD_DIR}/consumer")
  execute_process(COMMAND "${BUILD_DIR}/consumer" COMMAND_ERROR_IS_FATAL ANY)
endif()
