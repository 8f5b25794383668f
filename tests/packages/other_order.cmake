# For clang16.sh (CMAKE_PROJECT_tenon_INCLUDE): compiles the sources of each folder in the opposite
# order, ten at a time. So a file that lacks an include of Tenon's own meets other neighbours than
# in all other builds. The headers of the standard library are precompiled.

# tenon_precompile_once(<headers> <target>...): lets all targets share the headers that the first
# one compiles.
function(tenon_precompile_once headers first)
  target_precompile_headers(${first} PRIVATE ${headers})
  foreach(target IN LISTS ARGN)
    target_precompile_headers(${target} REUSE_FROM ${first})
  endforeach()
endfunction()

function(tenon_in_other_order)
  get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(NOT type STREQUAL "OBJECT_LIBRARY")
      continue()
    endif()
    get_target_property(sources ${target} SOURCES)
    list(REVERSE sources)
    set_target_properties(${target} PROPERTIES
      SOURCES "${sources}" UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
    list(APPEND objects ${target})
  endforeach()
  if(NOT objects)
    message(FATAL_ERROR "other_order.cmake: there is no object library")
  endif()
  set(headers <algorithm> <array> <atomic> <cerrno> <cstdint> <cstring> <functional> <limits> <map>
    <memory> <mutex> <optional> <span> <string> <string_view> <type_traits> <unordered_map>
    <utility> <variant> <vector>)
  tenon_precompile_once("${headers}" ${objects})
  # The examples in C++ share the wrapper's header.
  get_property(examples DIRECTORY examples/cpp PROPERTY BUILDSYSTEM_TARGETS)
  tenon_precompile_once("<tenon/tenon.hpp>" ${examples})
endfunction()
cmake_language(DEFER CALL tenon_in_other_order)
