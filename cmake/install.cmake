# `cmake --install`: the program; the library as one archive, its headers, and what finds them, a CMake package
# (find_package(shoehorn), target shoehorn::shoehorn) and a pkg-config file.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(rooms GLOBAL PROPERTY SHOEHORN_ROOMS)
list(REMOVE_ITEM rooms cli cross_room)  # the program's, and the tests'
list(TRANSFORM rooms REPLACE "(.+)" "$<TARGET_OBJECTS:shoehorn_\\1>" OUTPUT_VARIABLE objects)
add_library(shoehorn_archive STATIC ${objects})
set_target_properties(shoehorn_archive PROPERTIES OUTPUT_NAME shoehorn EXPORT_NAME shoehorn LINKER_LANGUAGE CXX)
target_compile_features(shoehorn_archive INTERFACE cxx_std_20)
target_include_directories(shoehorn_archive INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/shoehorn>)
target_link_libraries(shoehorn_archive INTERFACE ${SHOEHORN_DEPENDENCIES})

install(TARGETS shoehorn_archive EXPORT shoehorn ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY src/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/shoehorn FILES_MATCHING PATTERN "*.h"
  PATTERN "cli" EXCLUDE PATTERN "cpu" EXCLUDE PATTERN "null" EXCLUDE PATTERN "*test*.h" EXCLUDE)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/shoehorn)
install(EXPORT shoehorn NAMESPACE shoehorn:: FILE shoehorn-targets.cmake DESTINATION ${package})
configure_package_config_file(cmake/shoehorn-config.cmake.in ${PROJECT_BINARY_DIR}/shoehorn-config.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/shoehorn-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/shoehorn-config.cmake ${PROJECT_BINARY_DIR}/shoehorn-config-version.cmake
  cmake/dependencies.cmake cmake/SystemLibrary.cmake DESTINATION ${package})

# Relative to where the file lies, so that the tree can be moved.
cmake_path(SET pc_directory "/${CMAKE_INSTALL_LIBDIR}/pkgconfig")
cmake_path(RELATIVE_PATH pc_directory BASE_DIRECTORY "/" OUTPUT_VARIABLE pc_depth)
string(REGEX REPLACE "[^/]+" ".." PC_PREFIX ${pc_depth})
configure_file(cmake/shoehorn.pc.in ${PROJECT_BINARY_DIR}/shoehorn.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/shoehorn.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Machines that one can plan for by name.
install(DIRECTORY devices DESTINATION share/shoehorn FILES_MATCHING PATTERN "*.json")

# What completes command lines, and the manual page: the program makes them when it is installed.
set(made ${PROJECT_BINARY_DIR}/share)
install(CODE "
  file(MAKE_DIRECTORY \"${made}\")
  foreach(shell bash zsh fish)
    execute_process(COMMAND \"$<TARGET_FILE:shoehorn>\" completion \${shell}
      OUTPUT_FILE \"${made}/completion.\${shell}\" COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  execute_process(COMMAND \"$<TARGET_FILE:shoehorn>\" man OUTPUT_FILE \"${made}/shoehorn.1\" COMMAND_ERROR_IS_FATAL ANY)")
install(FILES ${made}/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME shoehorn)
install(FILES ${made}/completion.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _shoehorn)
install(FILES ${made}/completion.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME shoehorn.fish)
install(FILES ${made}/shoehorn.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
