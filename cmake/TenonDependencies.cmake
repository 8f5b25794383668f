# What the build needs from outside (docs/dependencies.md says why). Nothing is downloaded here.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

# Debian's own DLPack header (0.6) knows no DLManagedTensorVersioned.
function(tenon_is_dlpack_1 result_variable dir)
  set(found FALSE)
  if(EXISTS "${dir}/dlpack/dlpack.h")
    file(STRINGS "${dir}/dlpack/dlpack.h" lines REGEX "^#define DLPACK_MAJOR_VERSION +[1-9]")
    if(lines)
      set(found TRUE)
    endif()
  endif()
  set(${result_variable} ${found} PARENT_SCOPE)
endfunction()

set(TENON_DLPACK_INCLUDE_DIR "" CACHE PATH "The folder that contains dlpack/dlpack.h (version 1.0 or newer)")
if(NOT TENON_DLPACK_INCLUDE_DIR)
  file(GLOB _tenon_dlpack_places
    "$ENV{VIRTUAL_ENV}/lib/python3*/site-packages/tvm_ffi/include"
    "${PROJECT_SOURCE_DIR}/build/venv/lib/python3*/site-packages/tvm_ffi/include"
    "$ENV{HOME}/.local/lib/python3*/site-packages/tvm_ffi/include"
    "/usr/local/lib/python3*/*-packages/tvm_ffi/include"
    "/usr/lib/python3*/*-packages/tvm_ffi/include")
  foreach(_tenon_place IN ITEMS "$ENV{TENON_DLPACK_INCLUDE_DIR}" LISTS _tenon_dlpack_places ITEMS /usr/local/include /usr/include)
    tenon_is_dlpack_1(_tenon_found "${_tenon_place}")
    if(_tenon_found)
      set(TENON_DLPACK_INCLUDE_DIR "${_tenon_place}" CACHE PATH "The folder that contains dlpack/dlpack.h (version 1.0 or newer)" FORCE)
      break()
    endif()
  endforeach()
endif()
tenon_is_dlpack_1(_tenon_found "${TENON_DLPACK_INCLUDE_DIR}")
if(NOT _tenon_found)
  message(FATAL_ERROR "Tenon needs DLPack's header, version 1.0 or newer (looked at '${TENON_DLPACK_INCLUDE_DIR}'). "
    "Install the PyPI package apache-tvm-ffi, which carries it, or set TENON_DLPACK_INCLUDE_DIR to the folder that contains dlpack/dlpack.h.")
endif()
add_library(tenon_dlpack INTERFACE)
target_include_directories(tenon_dlpack SYSTEM INTERFACE "$<BUILD_INTERFACE:${TENON_DLPACK_INCLUDE_DIR}>")

# Static, so that libtenon.so needs nothing but the C and C++ libraries at run time.
find_library(TENON_LIBDEFLATE_LIBRARY NAMES libdeflate.a)
find_path(TENON_LIBDEFLATE_INCLUDE_DIR NAMES libdeflate.h)
mark_as_advanced(TENON_LIBDEFLATE_LIBRARY TENON_LIBDEFLATE_INCLUDE_DIR)
if(NOT TENON_LIBDEFLATE_LIBRARY OR NOT TENON_LIBDEFLATE_INCLUDE_DIR)
  message(FATAL_ERROR "Tenon needs the static libdeflate and its header: install libdeflate-dev (Debian, Ubuntu), "
    "or set TENON_LIBDEFLATE_LIBRARY to a libdeflate.a and TENON_LIBDEFLATE_INCLUDE_DIR to the folder of libdeflate.h.")
endif()
add_library(tenon_libdeflate INTERFACE)
target_link_libraries(tenon_libdeflate INTERFACE "$<BUILD_INTERFACE:${TENON_LIBDEFLATE_LIBRARY}>")
target_include_directories(tenon_libdeflate SYSTEM INTERFACE "$<BUILD_INTERFACE:${TENON_LIBDEFLATE_INCLUDE_DIR}>")
