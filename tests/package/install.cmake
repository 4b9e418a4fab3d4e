# Installs llmc from BUILD_DIR into a prefix which is then moved, so that what a consumer finds in
# it cannot depend on where it was installed.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE "${PREFIX}" "${PREFIX}-before")
execute_process(COMMAND ${CMAKE_COMMAND} --install "${BUILD_DIR}" --prefix "${PREFIX}-before"
  COMMAND_ERROR_IS_FATAL ANY)
file(RENAME "${PREFIX}-before" "${PREFIX}")
