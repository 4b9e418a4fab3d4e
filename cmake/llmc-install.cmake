# The package: headers and CMake files in the install tree, and the same CMake files in the build
# tree, where -Dllmc_DIR=<build folder> finds them.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(llmc_package_dir "${CMAKE_INSTALL_DATADIR}/cmake/llmc")

install(TARGETS llmc EXPORT llmc-targets INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(DIRECTORY include/llmc DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT llmc-targets NAMESPACE llmc:: DESTINATION "${llmc_package_dir}")
export(EXPORT llmc-targets NAMESPACE llmc:: FILE "${PROJECT_BINARY_DIR}/llmc-targets.cmake")

configure_package_config_file(cmake/llmc-config.cmake.in "${PROJECT_BINARY_DIR}/llmc-config.cmake"
  INSTALL_DESTINATION "${llmc_package_dir}")
# Headers only, so one installation serves every architecture. Before 1.0 a new minor version may
# change the API.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/llmc-config-version.cmake"
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
configure_file(cmake/llmc-architectures.cmake "${PROJECT_BINARY_DIR}" COPYONLY)
install(FILES
  "${PROJECT_BINARY_DIR}/llmc-config.cmake"
  "${PROJECT_BINARY_DIR}/llmc-config-version.cmake"
  cmake/llmc-architectures.cmake
  DESTINATION "${llmc_package_dir}")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATADIR}/licenses/llmc")
