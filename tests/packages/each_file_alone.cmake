# For clang16.sh (CMAKE_PROJECT_tenon_INCLUDE): compiles each source of the library by itself, however
# the build groups them, so that a file which lacks an include of Tenon's own is found. The headers of
# the standard library are precompiled, which halves the time.
function(tenon_each_file_alone)
  get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(NOT type STREQUAL "OBJECT_LIBRARY")
      continue()
    endif()
    set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
    if(first)
      target_precompile_headers(${target} REUSE_FROM ${first})
    else()
      set(first ${target})
      target_precompile_headers(${target} PRIVATE <algorithm> <array> <atomic> <cerrno> <cstdint>
        <cstring> <functional> <limits> <map> <memory> <mutex> <optional> <span> <string>
        <string_view> <type_traits> <unordered_map> <utility> <variant> <vector>)
    endif()
  endforeach()
  if(NOT first)
    message(FATAL_ERROR "each_file_alone.cmake: there is no object library")
  endif()
endfunction()
cmake_language(DEFER CALL tenon_each_file_alone)
