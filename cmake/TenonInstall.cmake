# Defines what `cmake --install` puts where. The installed tree may be moved, because no file in it
# names a place. The component "runtime" has what a program needs to run, and "dev" what a program
# needs to be built.

include(CMakePackageConfigHelpers)

install(TARGETS tenon EXPORT tenonTargets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime NAMELINK_COMPONENT dev
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(DIRECTORY capi/include/tenon DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT dev
  FILES_MATCHING PATTERN "*.h")
install(FILES "${PROJECT_BINARY_DIR}/include/tenon/version.h"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/tenon" COMPONENT dev)

# The C++ wrapper is headers alone, so it is part of tenon::tenon. The Python package's archive has
# no wrappers in it.
if(EXISTS "${PROJECT_SOURCE_DIR}/wrappers/cpp/include")
  install(DIRECTORY wrappers/cpp/include/tenon DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
    COMPONENT dev FILES_MATCHING PATTERN "*.hpp")
endif()

set(_tenon_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/tenon")
install(EXPORT tenonTargets NAMESPACE tenon:: DESTINATION "${_tenon_package_dir}" COMPONENT dev)
configure_package_config_file(cmake/tenonConfig.cmake.in
  "${PROJECT_BINARY_DIR}/package/tenonConfig.cmake"
  INSTALL_DESTINATION "${_tenon_package_dir}" NO_SET_AND_CHECK_MACRO)
# Before 1.0 a new minor version may change the header.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/tenonConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/package/tenonConfig.cmake"
  "${PROJECT_BINARY_DIR}/package/tenonConfigVersion.cmake"
  DESTINATION "${_tenon_package_dir}" COMPONENT dev)

# pkg-config knows the folder of the .pc file. The other paths are relative to that folder.
set(_tenon_pc_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
cmake_path(IS_ABSOLUTE CMAKE_INSTALL_LIBDIR _tenon_absolute)
if(_tenon_absolute)
  set(TENON_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
  set(TENON_PC_LIBDIR "${CMAKE_INSTALL_LIBDIR}")
else()
  file(RELATIVE_PATH _tenon_up "/${_tenon_pc_dir}" "/")
  string(REGEX REPLACE "/$" "" _tenon_up "${_tenon_up}")
  set(TENON_PC_PREFIX "\${pcfiledir}/${_tenon_up}")
  set(TENON_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()
cmake_path(IS_ABSOLUTE CMAKE_INSTALL_INCLUDEDIR _tenon_absolute)
if(_tenon_absolute)
  set(TENON_PC_INCLUDEDIR "${CMAKE_INSTALL_INCLUDEDIR}")
else()
  set(TENON_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file(cmake/tenon.pc.in "${PROJECT_BINARY_DIR}/package/tenon.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/package/tenon.pc" DESTINATION "${_tenon_pc_dir}" COMPONENT dev)
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT runtime)

# The archive is for programs that must not need libtenon.so. A plain install leaves it out:
#   cmake --build <build> --target tenon_internal && cmake --install <build> --component static
configure_file(cmake/tenon-static.pc.in "${PROJECT_BINARY_DIR}/package/tenon-static.pc" @ONLY)
install(FILES "$<TARGET_FILE:tenon_internal>" DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  RENAME libtenon.a COMPONENT static EXCLUDE_FROM_ALL)
install(FILES "${PROJECT_BINARY_DIR}/package/tenon-static.pc" DESTINATION "${_tenon_pc_dir}"
  COMPONENT static EXCLUDE_FROM_ALL)
