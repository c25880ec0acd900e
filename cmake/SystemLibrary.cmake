# Libraries that come without CMake files of their own:
#
#   shoehorn_system_library(NAME HEADER LIBRARY)
#
# gives the target NAME::NAME. The installed package of Shoehorn finds them in the same way.
function(shoehorn_system_library name header library)
  find_path(${name}_INCLUDE_DIR ${header} REQUIRED)
  find_library(${name}_LIBRARY ${library} REQUIRED)
  mark_as_advanced(${name}_INCLUDE_DIR ${name}_LIBRARY)
  if(NOT TARGET ${name}::${name})
    add_library(${name}::${name} UNKNOWN IMPORTED)
    set_target_properties(${name}::${name} PROPERTIES
      IMPORTED_LOCATION ${${name}_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${${name}_INCLUDE_DIR})
  endif()
endfunction()
