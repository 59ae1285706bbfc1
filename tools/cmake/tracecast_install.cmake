# `cmake --install`: the program, the libraries with their headers, and what find_package(tracecast) needs.
include(CMakePackageConfigHelpers)

set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tracecast)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tracecast-config.cmake.in
  ${PROJECT_BINARY_DIR}/tracecast-config.cmake INSTALL_DESTINATION ${config_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tracecast-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tracecast-config.cmake ${PROJECT_BINARY_DIR}/tracecast-config-version.cmake
              ${CMAKE_CURRENT_LIST_DIR}/tracecast_cbc.cmake
        DESTINATION ${config_folder})
install(EXPORT tracecast NAMESPACE tracecast:: FILE tracecast-targets.cmake DESTINATION ${config_folder})
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
