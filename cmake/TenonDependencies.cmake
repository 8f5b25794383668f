# Finds what the build needs from outside (docs/dependencies.md gives the reasons). Nothing is
# downloaded here. The top CMakeLists.txt includes this file.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

# Debian's own DLPack header (0.6) has no DLManagedTensorVersioned.
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

set(TENON_DLPACK_INCLUDE_DIR ""
  CACHE PATH "The folder that contains dlpack/dlpack.h (version 1.0 or newer)")
if(NOT TENON_DLPACK_INCLUDE_DIR)
  file(GLOB _tenon_dlpack_places
    "$ENV{VIRTUAL_ENV}/lib/python3*/site-packages/tvm_ffi/include"
    "${PROJECT_SOURCE_DIR}/build/venv/lib/python3*/site-packages/tvm_ffi/include"
    "$ENV{HOME}/.local/lib/python3*/site-packages/tvm_ffi/include"
    "/usr/local/lib/python3*/*-packages/tvm_ffi/include"
    "/usr/lib/python3*/*-packages/tvm_ffi/include")
  foreach(_tenon_place IN ITEMS "$ENV{TENON_DLPACK_INCLUDE_DIR}"
      LISTS _tenon_dlpack_places ITEMS /usr/local/include /usr/include)
    tenon_is_dlpack_1(_tenon_found "${_tenon_place}")
    if(_tenon_found)
      set(TENON_DLPACK_INCLUDE_DIR "${_tenon_place}"
        CACHE PATH "The folder that contains dlpack/dlpack.h (version 1.0 or newer)" FORCE)
      break()
    endif()
  endforeach()
endif()
tenon_is_dlpack_1(_tenon_found "${TENON_DLPACK_INCLUDE_DIR}")
if(NOT _tenon_found)
  message(FATAL_ERROR
    "Tenon needs DLPack's header, version 1.0 or newer (looked at '${TENON_DLPACK_INCLUDE_DIR}'). "
    "Install the PyPI package apache-tvm-ffi, which carries it, or set "
    "TENON_DLPACK_INCLUDE_DIR to the folder that contains dlpack/dlpack.h.")
endif()
add_library(tenon_dlpack INTERFACE)
target_include_directories(tenon_dlpack
  SYSTEM INTERFACE "$<BUILD_INTERFACE:${TENON_DLPACK_INCLUDE_DIR}>")

# libdeflate is linked statically, so that libtenon.so needs only the C and C++ libraries at run
# time.
find_library(TENON_LIBDEFLATE_LIBRARY NAMES libdeflate.a)
find_path(TENON_LIBDEFLATE_INCLUDE_DIR NAMES libdeflate.h)
mark_as_advanced(TENON_LIBDEFLATE_LIBRARY TENON_LIBDEFLATE_INCLUDE_DIR)
if(NOT TENON_LIBDEFLATE_LIBRARY OR NOT TENON_LIBDEFLATE_INCLUDE_DIR)
  message(FATAL_ERROR
    "Tenon needs the static libdeflate and its header: install libdeflate-dev (Debian, Ubuntu), "
    "or set TENON_LIBDEFLATE_LIBRARY to a libdeflate.a and TENON_LIBDEFLATE_INCLUDE_DIR to the "
    "folder of libdeflate.h.")
endif()
add_library(tenon_libdeflate INTERFACE)
target_link_libraries(tenon_libdeflate INTERFACE "$<BUILD_INTERFACE:${TENON_LIBDEFLATE_LIBRARY}>")
target_include_directories(tenon_libdeflate
  SYSTEM INTERFACE "$<BUILD_INTERFACE:${TENON_LIBDEFLATE_INCLUDE_DIR}>")

# The build needs only the driver's header of the CUDA Toolkit, and the types of its functions. A
# folder that lacks either, or whose header is too old, is passed over. CMake 3.25's own
# FindCUDAToolkit wants nvcc and a library that CUDA 13 no longer has.
set(TENON_CUDA_OLDEST_HEADER 12050)
function(tenon_is_cuda_header result_variable dir)
  set(${result_variable} FALSE PARENT_SCOPE)
  if(EXISTS "${dir}/cuda.h" AND EXISTS "${dir}/cudaTypedefs.h")
    file(STRINGS "${dir}/cuda.h" lines REGEX "^#define CUDA_VERSION +[0-9]+")
    if(lines MATCHES "CUDA_VERSION +([0-9]+)"
        AND CMAKE_MATCH_1 GREATER_EQUAL TENON_CUDA_OLDEST_HEADER)
      set(${result_variable} TRUE PARENT_SCOPE)
    endif()
  endif()
endfunction()

file(GLOB _tenon_cuda_packages
  "$ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia/cu13/include"
  "${PROJECT_SOURCE_DIR}/build/venv/lib/python3*/site-packages/nvidia/cu13/include"
  "$ENV{HOME}/.local/lib/python3*/site-packages/nvidia/cu13/include"
  "/usr/local/lib/python3*/*-packages/nvidia/cu13/include")
find_path(TENON_CUDA_INCLUDE_DIR NAMES cudaTypedefs.h VALIDATOR tenon_is_cuda_header
  HINTS "${CUDAToolkit_ROOT}" ENV CUDAToolkit_ROOT ENV TENON_CUDA_INCLUDE_DIR
    ${_tenon_cuda_packages}
  PATHS ENV CUDA_PATH ENV CUDA_HOME /usr/local/cuda /opt/cuda /usr/lib/cuda
  PATH_SUFFIXES include targets/x86_64-linux/include targets/sbsa-linux/include
  DOC
    "The folder that contains cuda.h and cudaTypedefs.h (12.5 or newer); OFF to build without CUDA")
if(TENON_CUDA_INCLUDE_DIR)
  tenon_is_cuda_header(_tenon_found "${TENON_CUDA_INCLUDE_DIR}")
  if(NOT _tenon_found)
    message(FATAL_ERROR "TENON_CUDA_INCLUDE_DIR is '${TENON_CUDA_INCLUDE_DIR}', which has no "
      "cuda.h and cudaTypedefs.h of CUDA 12.5 or newer.")
  endif()
  message(STATUS "CUDA's header: ${TENON_CUDA_INCLUDE_DIR}")
elseif(TENON_CUDA_INCLUDE_DIR MATCHES "-NOTFOUND$")
  message(STATUS "CUDA's header: none here, so this build goes without CUDA "
    "(the PyPI package nvidia-cuda-runtime has it; "
    "TENON_CUDA_INCLUDE_DIR names the folder of a cuda.h and cudaTypedefs.h of CUDA 12.5 or newer)")
else()
  message(STATUS "CUDA's header: TENON_CUDA_INCLUDE_DIR is '${TENON_CUDA_INCLUDE_DIR}', "
    "so this build goes without CUDA")
endif()

# FlatBuffers' headers alone are used, for the flatbuffer form of modules and for .ptd files. The
# generated headers in impl/modules/flatbuffer are of version 2.0.8, which Debian 12 has. For
# headers of another version, that version's flatc generates them anew. Without either, both kinds
# of file are refused.
find_path(TENON_FLATBUFFERS_INCLUDE_DIR NAMES flatbuffers/flatbuffers.h)
find_program(TENON_FLATC NAMES flatc)
mark_as_advanced(TENON_FLATBUFFERS_INCLUDE_DIR TENON_FLATC)
set(TENON_FLATBUFFERS OFF)
if(TENON_FLATBUFFERS_INCLUDE_DIR)
  file(STRINGS "${TENON_FLATBUFFERS_INCLUDE_DIR}/flatbuffers/base.h" _tenon_lines
    REGEX "^#define FLATBUFFERS_VERSION_")
  string(REGEX REPLACE "[^0-9;]" "" _tenon_lines "${_tenon_lines}")
  list(JOIN _tenon_lines . _tenon_flatbuffers_version)
  if(_tenon_flatbuffers_version STREQUAL "2.0.8")
    set(TENON_FLATBUFFERS ON)
  elseif(TENON_FLATC)
    execute_process(COMMAND "${TENON_FLATC}" --cpp --scoped-enums --cpp-std c++17
        -o "${PROJECT_BINARY_DIR}/flatbuffer"
        "${PROJECT_SOURCE_DIR}/impl/modules/flatbuffer/module.fbs"
        "${PROJECT_SOURCE_DIR}/impl/modules/flatbuffer/flat_tensor.fbs"
      RESULT_VARIABLE _tenon_failed)
    if(NOT _tenon_failed)
      set(TENON_FLATBUFFERS ON)
      set(TENON_FLATBUFFERS_GENERATED_DIR "${PROJECT_BINARY_DIR}/flatbuffer")
    endif()
  endif()
endif()
if(NOT TENON_FLATBUFFERS)
  message(STATUS "Tenon: no flatbuffers, because the headers of FlatBuffers 2.0.8, "
    "or of another version with its flatc, are missing")
endif()

# nlohmann's headers alone are used, for the lists of weights in .pt2 archives. Without them an
# archive with such lists is refused. The form of PyTorch 2.6, which has no lists, is still read.
find_path(TENON_JSON_INCLUDE_DIR NAMES nlohmann/json.hpp)
mark_as_advanced(TENON_JSON_INCLUDE_DIR)
if(NOT TENON_JSON_INCLUDE_DIR)
  message(STATUS "Tenon: no JSON, so .pt2 archives of the newest PyTorch are not read: "
    "nlohmann/json.hpp is missing (nlohmann-json3-dev)")
endif()
