# How Tenon's own targets are compiled and linked. The top CMakeLists.txt includes this file.

# Most code waits for the system, for another process, for CUDA's driver or for a file, or describes
# a failure. Size is worth more than speed there, so it has -Os. The sources in TENON_QUICK_<folder>
# have -O2. -O3 would make the library a seventh larger and no quicker.
set(TENON_SMALL "$<$<CONFIG:Release,RelWithDebInfo>:-Os>")
set(TENON_QUICK "$<$<CONFIG:Release,RelWithDebInfo>:-O2>")
# The checks of a sanitizer make optimised code large: the compiler would take longer than the tests
# gain. A sanitizer's build optimises only the sources in TENON_QUICK_<folder>, and not those of
# these folders. A fuzzer runs for long, so its build optimises everything.
set(TENON_SANITIZED_O0_FOLDERS
  cuda pickle value archive object bytecode flatbuffer script compile module weights shared_weights)
# All sources of these folders have -O2: an export checks and compiles code that can be long.
set(TENON_QUICK_FOLDERS script compile)
# The names, without .cc, of sources that run for each storage, tensor, block or message, or for
# each tensor of a module that is opened.
set(TENON_QUICK_base keyed_hash)
set(TENON_QUICK_os map_budget mapping poller sender socket wait wait_limits)
set(TENON_QUICK_memory
  arena claims_page depot fixed_size_pool free_space holding ledger lent_block lent_index
  unread_guard user_arena)
set(TENON_QUICK_storage storage)
set(TENON_QUICK_share by_fd cache storage_at)
set(TENON_QUICK_tensor
  composite_contents descriptor descriptor_encode dlpack dtype layout message pack tensor)
set(TENON_QUICK_channel
  borrowing connection_recv connection_send deposit fetch fetch_pieces frames known_lender
  lease_block lender_link lending segment_numbers)
set(TENON_QUICK_queue page queue_recv queue_send ready_fd short_form)
set(TENON_QUICK_object one_tensor)
set(TENON_QUICK_value check storage_value tensor_value value walk)
set(TENON_QUICK_pickle machine machine_scalars nodes opcodes)
set(TENON_QUICK_archive pickle_storages pickle_tensors pickle_to_values
  zip_directory zip_local zip_names zip_reader)
set(TENON_QUICK_bytecode slots type_text verify verify_names verify_operands)
set(TENON_QUICK_flatbuffer module_reader storage_ranges)
set(TENON_QUICK_module declared_types import_storages)
set(TENON_QUICK_weights
  contents_builder lazy_tensors read_contents read_safetensors safetensors_header weights)
set(TENON_QUICK_capi by_fd connection dlpack message queue storage tensor wait weak)
# The headers that a build with TENON_PRECOMPILE compiles once for many sources.
set(TENON_STANDARD_HEADERS
  <algorithm> <array> <atomic> <bit> <cerrno> <charconv> <chrono> <cstddef> <cstdint> <cstdio>
  <cstdlib> <cstring> <functional> <limits> <map> <memory> <mutex> <new> <optional> <set> <span>
  <string> <string_view> <unordered_map> <unordered_set> <utility> <variant> <vector>)
set(TENON_WARNINGS -Wall -Wextra -Wpedantic -Wconversion -Wshadow)

if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE RelWithDebInfo
      CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
  endif()
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
    find_program(TENON_CCACHE NAMES ccache)
    mark_as_advanced(TENON_CCACHE)
    if(TENON_CCACHE)
      set(CMAKE_C_COMPILER_LAUNCHER "${TENON_CCACHE}")
      set(CMAKE_CXX_COMPILER_LAUNCHER "${TENON_CCACHE}")
    endif()
  endif()
endif()

set(TENON_IS_LITTLE_OPTIMISED OFF)
if(TENON_SANITIZE AND NOT TENON_SANITIZE MATCHES "fuzzer")
  set(TENON_IS_LITTLE_OPTIMISED ON)
endif()
# A build without -Os and -O2, such as the tests' build, compiles the quick sources together with
# the others of their folder.
set(TENON_HAS_QUICK OFF)
if(TENON_SANITIZE OR CMAKE_CONFIGURATION_TYPES
    OR CMAKE_BUILD_TYPE MATCHES "^(Release|RelWithDebInfo)$")
  set(TENON_HAS_QUICK ON)
endif()
if(TENON_SANITIZE)
  # The archives are for tests alone. They refer to the objects and hold no copies.
  set(CMAKE_CXX_ARCHIVE_CREATE "<CMAKE_AR> qcT <TARGET> <LINK_FLAGS> <OBJECTS>")
endif()
# mold 1.10, which Debian 12 has, begins the range that is read-only after relocation at .tbss. If
# the data begins on a page of its own, that page is not mapped, and the program does not start
# ("cannot apply additional memory protection after relocation"). Without RELRO it may never end. So
# only newer ones are taken. LLVM's linker is the second choice. gcc looks for it under the name
# ld.lld alone, and Debian's packages add their version to the name.
if(TENON_FAST_LINKER AND CMAKE_CXX_COMPILER_ID MATCHES "^(GNU|Clang)$")
  include(CheckLinkerFlag)
  set(mold_version "")
  find_program(TENON_MOLD NAMES mold)
  if(TENON_MOLD)
    execute_process(COMMAND ${TENON_MOLD} --version OUTPUT_VARIABLE mold_version ERROR_QUIET)
  endif()
  if(mold_version MATCHES "^mold ([0-9.]+)" AND CMAKE_MATCH_1 VERSION_GREATER_EQUAL 2)
    set(fast_linker -fuse-ld=mold)
  else()
    find_program(TENON_LLD NAMES ld.lld-21 ld.lld-20 ld.lld-19 ld.lld)
    if(TENON_LLD)
      file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/linker)
      file(CREATE_LINK ${TENON_LLD} ${PROJECT_BINARY_DIR}/linker/ld.lld SYMBOLIC)
      set(fast_linker -B${PROJECT_BINARY_DIR}/linker -fuse-ld=lld)
    endif()
  endif()
  if(fast_linker)
    check_linker_flag(CXX "${fast_linker}" TENON_HAS_FAST_LINKER)
    if(TENON_HAS_FAST_LINKER)
      add_link_options(${fast_linker})
    endif()
  endif()
endif()

# Sets the language level, warnings and sanitizers of one of Tenon's targets. Code that links the
# target does not get these options.
function(tenon_compile_options target)
  set_target_properties(${target} PROPERTIES
    C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
  target_compile_options(${target} PRIVATE ${TENON_WARNINGS}
    "$<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>")
  if(TENON_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(TENON_SANITIZE)
    target_compile_options(${target}
      PRIVATE -fsanitize=${TENON_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    if(TENON_SANITIZE MATCHES "undefined")
      # UBSan's vptr check reads memory through a pipe. At the fd limit, which tests reach, it gets
      # no pipe and reports false errors.
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=vptr>)
      if(TENON_UBSAN_TRAPS)
        target_compile_options(${target} PRIVATE -fsanitize-undefined-trap-on-error)
      endif()
    endif()
    target_link_options(${target} PRIVATE -fsanitize=${TENON_SANITIZE})
  endif()
endfunction()

function(tenon_compile_library_options target)
  tenon_compile_options(${target})
  set_target_properties(${target} PROPERTIES
    POSITION_INDEPENDENT_CODE ON
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_definitions(${target} PRIVATE TENON_BUILDING)
  # With these options the linker can leave out functions that nobody calls, to keep the library
  # small.
  target_compile_options(${target} PRIVATE -ffunction-sections -fdata-sections
    "$<$<CONFIG:Release>:-O2>")
  target_link_libraries(${target} PRIVATE tenon_dlpack tenon_libdeflate Threads::Threads)
endfunction()

# tenon_compile_together(<target>): compiles the sources in few processes (TENON_UNITY), because
# most of the time goes to the headers of the standard library. A name that is local to a file must
# therefore be unique in its folder (tools/lint_local_names.py).
function(tenon_compile_together target)
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ${TENON_UNITY} UNITY_BUILD_BATCH_SIZE ${TENON_UNITY_BATCH})
endfunction()

# tenon_precompile(<target> PRIVATE <header>... | REUSE_FROM <other target>): precompiles headers.
# Only gcc gets one, because clang-tidy reads the compile commands and cannot read another
# compiler's precompiled header.
function(tenon_precompile target)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  target_precompile_headers(${target} ${ARGN})
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>")
  if(TENON_CCACHE)
    # ccache caches a source with a precompiled header only with these settings.
    set_target_properties(${target} PROPERTIES
      CXX_COMPILER_LAUNCHER
        "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;${TENON_CCACHE}")
  endif()
endfunction()

# tenon_precompile_standard(<target>): in a build with TENON_PRECOMPILE, the target reads the
# standard library's headers from a file that all targets with the same options share. Call it when
# the target has all its options, because gcc refuses a header that was precompiled with other
# options.
function(tenon_precompile_standard target)
  if(NOT TENON_PRECOMPILE)
    return()
  endif()
  get_target_property(options ${target} COMPILE_OPTIONS)
  get_target_property(independent ${target} POSITION_INDEPENDENT_CODE)
  get_target_property(visibility ${target} CXX_VISIBILITY_PRESET)
  if(CMAKE_BUILD_TYPE STREQUAL "Debug")
    # These options are empty in this build, so they do not distinguish two targets.
    string(REGEX REPLACE ";?\\$<\\$<CONFIG:Release[^>]*>:[^>]*>" "" options "${options}")
  endif()
  string(MD5 key "${options} ${independent} ${visibility}")
  set(holder tenon_standard_headers_${key})
  if(NOT TARGET ${holder})
    file(WRITE "${PROJECT_BINARY_DIR}/standard_headers.cc" "")
    add_library(${holder} OBJECT EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/standard_headers.cc")
    if(visibility)
      tenon_compile_library_options(${holder})
    else()
      tenon_compile_options(${holder})
      target_link_libraries(${holder} PRIVATE Threads::Threads)
    endif()
    set_target_properties(${holder} PROPERTIES COMPILE_OPTIONS "${options}")
    tenon_precompile(${holder} PRIVATE ${TENON_STANDARD_HEADERS})
  endif()
  tenon_precompile(${target} REUSE_FROM ${holder})
endfunction()

# tenon_add_objects(<target> <source>...): adds a part of the library, compiled with the library's
# options.
function(tenon_add_objects target)
  add_library(${target} OBJECT ${ARGN})
  tenon_compile_library_options(${target})
  tenon_compile_together(${target})
endfunction()

# tenon_take_quick(<folder> <variable> <quick variable>): moves the sources in TENON_QUICK_<folder>
# from one list to the other. A name that no source has ends the configuration.
function(tenon_take_quick folder sources_variable quick_variable)
  set(rest ${${sources_variable}})
  set(taken)
  foreach(name IN LISTS TENON_QUICK_${folder})
    set(found ${rest})
    list(FILTER found INCLUDE REGEX "/${name}\\.cc$")
    if(NOT found)
      message(FATAL_ERROR "TENON_QUICK_${folder}: there is no source ${name}.cc")
    endif()
    if(TENON_HAS_QUICK
        AND NOT (TENON_IS_LITTLE_OPTIMISED AND folder IN_LIST TENON_SANITIZED_O0_FOLDERS))
      list(REMOVE_ITEM rest ${found})
      list(APPEND taken ${found})
    endif()
  endforeach()
  set(${sources_variable} "${rest}" PARENT_SCOPE)
  set(${quick_variable} "${taken}" PARENT_SCOPE)
endfunction()

# Adds one object library for each folder of impl, and a second one, <folder>_quick, for the sources
# in TENON_QUICK_<folder>. impl/LAYERS names the folders that each folder may use. All folders share
# one include root, so only tools/lint_layers.py refuses an include of another folder. The tests of
# a folder link tenon_up_to_<folder>: an archive of its objects, and the archives of the folders on
# which it stands. A test that needs more does not link.
function(tenon_add_folders)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS impl/LAYERS)
  file(READ impl/LAYERS text)
  string(REGEX REPLACE "\n +" " " text "${text}")
  string(REGEX MATCHALL "[^\n]+" lines "${text}")
  list(FILTER lines INCLUDE REGEX "^[a-z]")
  set(folders)
  foreach(line IN LISTS lines)
    string(REGEX REPLACE " *:.*" "" path "${line}")
    if(path MATCHES "^modules/" AND NOT TENON_MODULES)
      continue()
    endif()
    # Targets and tests are named without the wing: modules/archive gives tenon_archive.
    cmake_path(GET path FILENAME folder)
    set(path_of_${folder} "${path}")
    string(REGEX REPLACE "^[^:]*:" "" named "${line}")
    string(REGEX REPLACE "modules/" "" named "${named}")
    string(REGEX MATCHALL "[a-z_]+" stands_on_${folder} "${named}")
    list(APPEND folders ${folder})
  endforeach()
  # The linker takes the first definition of a function that several objects hold, such as a
  # template's. So the quick objects come first.
  set(quick_objects)
  set(objects)
  set(all_folders ${folders})
  list(TRANSFORM all_folders PREPEND tenon_)
  foreach(folder IN LISTS folders)
    file(GLOB sources CONFIGURE_DEPENDS "impl/${path_of_${folder}}/*.cc")
    if(folder STREQUAL "cuda" AND TENON_CUDA_INCLUDE_DIR)
      list(FILTER sources EXCLUDE REGEX "/absent\\.cc$")
    elseif(folder STREQUAL "cuda")
      list(FILTER sources INCLUDE REGEX "/absent\\.cc$")
    endif()
    set(archives ${stands_on_${folder}})
    list(TRANSFORM archives PREPEND tenon_up_to_)
    list(TRANSFORM stands_on_${folder} PREPEND tenon_)

    set(small "${TENON_SMALL}")
    if(folder IN_LIST TENON_QUICK_FOLDERS)
      set(small "${TENON_QUICK}")
    endif()
    if(TENON_IS_LITTLE_OPTIMISED)
      set(small -O0)
    endif()
    tenon_take_quick(${folder} sources quick_sources)

    tenon_add_objects(tenon_${folder} ${sources})
    target_compile_options(tenon_${folder} PRIVATE "${small}")
    set(targets tenon_${folder})
    if(quick_sources)
      tenon_add_objects(tenon_${folder}_quick ${quick_sources})
      target_compile_options(tenon_${folder}_quick PRIVATE "${TENON_QUICK}")
      list(APPEND targets tenon_${folder}_quick)
    endif()
    set(folder_objects)
    foreach(target IN LISTS targets)
      target_include_directories(${target} PUBLIC impl)
      if(folder STREQUAL "cuda" AND TENON_CUDA_INCLUDE_DIR)
        # Only this folder gets the path, so no other folder can include a header that includes
        # cuda.h.
        target_include_directories(${target} SYSTEM PRIVATE "${TENON_CUDA_INCLUDE_DIR}")
      endif()
      if(folder STREQUAL "flatbuffer" AND TENON_FLATBUFFERS)
        target_compile_definitions(${target} PRIVATE TENON_HAS_FLATBUFFERS)
        if(TENON_FLATBUFFERS_GENERATED_DIR)
          target_compile_definitions(${target} PRIVATE TENON_FLATBUFFERS_GENERATED)
          target_include_directories(${target} SYSTEM PRIVATE "${TENON_FLATBUFFERS_GENERATED_DIR}")
        endif()
        target_include_directories(${target} SYSTEM PRIVATE "${TENON_FLATBUFFERS_INCLUDE_DIR}")
      endif()
      if(folder STREQUAL "weights" AND TENON_JSON_INCLUDE_DIR)
        target_compile_definitions(${target} PRIVATE TENON_HAS_JSON)
        target_include_directories(${target} SYSTEM PRIVATE "${TENON_JSON_INCLUDE_DIR}")
      endif()
      target_link_libraries(${target} PUBLIC ${stands_on_${folder}})
      tenon_precompile_standard(${target})
      list(APPEND folder_objects "$<TARGET_OBJECTS:${target}>")
    endforeach()
    list(APPEND objects "$<TARGET_OBJECTS:tenon_${folder}>")
    if(quick_sources)
      list(APPEND quick_objects "$<TARGET_OBJECTS:tenon_${folder}_quick>")
    endif()
    add_library(tenon_up_to_${folder} STATIC EXCLUDE_FROM_ALL ${folder_objects})
    set_target_properties(tenon_up_to_${folder} PROPERTIES LINKER_LANGUAGE CXX)
    target_include_directories(tenon_up_to_${folder} INTERFACE "${PROJECT_SOURCE_DIR}/impl")
    target_link_libraries(tenon_up_to_${folder}
      INTERFACE ${archives} tenon_libdeflate tenon_dlpack Threads::Threads ${CMAKE_DL_LIBS})
  endforeach()

  file(GLOB sources CONFIGURE_DEPENDS "capi/src/*.cc")
  tenon_take_quick(capi sources quick_sources)
  if(TENON_MODULES)
    file(GLOB modules CONFIGURE_DEPENDS "capi/src/modules/*.cc")
  else()
    tenon_make_no_modules(modules)
  endif()
  tenon_add_objects(tenon_capi ${sources})
  tenon_add_objects(tenon_capi_modules ${modules})
  set(targets tenon_capi tenon_capi_modules)
  if(quick_sources)
    tenon_add_objects(tenon_capi_quick ${quick_sources})
    target_compile_options(tenon_capi_quick PRIVATE "${TENON_QUICK}")
    list(APPEND targets tenon_capi_quick)
    list(APPEND quick_objects "$<TARGET_OBJECTS:tenon_capi_quick>")
  endif()
  target_include_directories(tenon_capi_modules PRIVATE capi/src)
  target_compile_options(tenon_capi PRIVATE "${TENON_SMALL}")
  target_compile_options(tenon_capi_modules PRIVATE "${TENON_SMALL}")
  if(TENON_IS_LITTLE_OPTIMISED)
    target_compile_options(tenon_capi PRIVATE -O0)
    target_compile_options(tenon_capi_modules PRIVATE -O0)
  endif()
  foreach(target IN LISTS targets)
    # tools/abi reads the types of the header from the debug information of these sources.
    if(NOT TENON_SANITIZE)
      target_compile_options(${target} PRIVATE "$<$<CONFIG:Debug,RelWithDebInfo>:-g>")
    endif()
    target_include_directories(${target} PUBLIC capi/include "${PROJECT_BINARY_DIR}/include")
    target_link_libraries(${target} PUBLIC ${all_folders})
    tenon_precompile_standard(${target})
  endforeach()
  list(APPEND objects "$<TARGET_OBJECTS:tenon_capi>" "$<TARGET_OBJECTS:tenon_capi_modules>")
  set(TENON_OBJECTS "${quick_objects};${objects}" PARENT_SCOPE)
endfunction()

function(tenon_add_library)
  add_library(tenon SHARED ${TENON_OBJECTS})
  add_library(tenon::tenon ALIAS tenon)
  set_target_properties(tenon PROPERTIES
    LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION ${TENON_ABI_VERSION}
    LINK_DEPENDS "${PROJECT_SOURCE_DIR}/capi/tenon.map")
  target_include_directories(tenon INTERFACE
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/capi/include>"
    "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>"
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/wrappers/cpp/include>")
  target_link_libraries(tenon PRIVATE tenon_libdeflate Threads::Threads ${CMAKE_DL_LIBS})
  target_link_options(tenon PRIVATE
    "LINKER:--version-script=${PROJECT_SOURCE_DIR}/capi/tenon.map" LINKER:--exclude-libs,ALL
    LINKER:--as-needed LINKER:--gc-sections
    # The code must outlive a dlclose, because fork hooks cannot be unregistered and a storage's
    # deleter may run late.
    LINKER:-z,nodelete LINKER:-z,relro LINKER:-z,now)
  if(TENON_HAS_FAST_LINKER)
    # capi/abi describes the shipped library. mold and lld do not export the name of the version
    # script's node, so bfd links it.
    target_link_options(tenon PRIVATE -fuse-ld=bfd)
  endif()
  if(TENON_SANITIZE)
    target_link_options(tenon PRIVATE -fsanitize=${TENON_SANITIZE})
  else()
    # A sanitizer's run-time symbols are resolved from the program, so only plain builds have this
    # check.
    target_link_options(tenon PRIVATE LINKER:-z,defs)
  endif()

  # An archive of the whole library, for tests of the inside.
  add_library(tenon_internal STATIC EXCLUDE_FROM_ALL ${TENON_OBJECTS})
  set_target_properties(tenon_internal PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(tenon_internal INTERFACE
    "${PROJECT_SOURCE_DIR}/impl" "${PROJECT_SOURCE_DIR}/capi/include"
    "${PROJECT_BINARY_DIR}/include")
  target_link_libraries(tenon_internal
    INTERFACE tenon_libdeflate tenon_dlpack Threads::Threads ${CMAKE_DL_LIBS})
endfunction()
