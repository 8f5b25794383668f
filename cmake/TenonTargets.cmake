# How Tenon's own targets are compiled and put together.

# Text and trees, read once for a whole archive, and what waits for CUDA's driver: size is worth more there than speed. The rest has -O2: -O3
# makes it a seventh larger and no quicker.
set(TENON_SMALL "$<$<CONFIG:Release,RelWithDebInfo>:-Os>")
set(TENON_SMALL_FOLDERS cuda value archive script module)
# But for what is done for each tensor of a module that is opened: a sixth of the time, for a twentieth of the size.
set(TENON_QUICK "$<$<CONFIG:Release,RelWithDebInfo>:-O2>")
set(TENON_QUICK_SOURCES
  archive/pickle_machine.cc archive/pickle_machine_scalars.cc archive/pickle_nodes.cc archive/pickle_opcodes.cc archive/pickle_storages.cc
  archive/pickle_tensors.cc archive/pickle_to_values.cc archive/zip_directory.cc archive/zip_local.cc archive/zip_names.cc
  archive/zip_reader.cc module/conform.cc module/import_storages.cc script/lexer.cc script/token.cc value/check.cc
  value/storage_value.cc value/tensor_value.cc value/value.cc value/walk.cc)
if(TENON_SANITIZE)
  # What is written out for each check grows with the optimiser, and takes longer to compile than these rooms' tests take to run.
  set(TENON_SMALL -O0)
  set(TENON_QUICK -O0)
endif()
set(TENON_WARNINGS -Wall -Wextra -Wpedantic -Wconversion -Wshadow)

if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
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

# Language level, warnings and sanitizers for one of our targets; nothing of it reaches who links the target.
function(tenon_compile_options target)
  set_target_properties(${target} PROPERTIES
    C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
  target_compile_options(${target} PRIVATE ${TENON_WARNINGS} "$<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>")
  if(TENON_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(TENON_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${TENON_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    # UBSan's vptr check reads memory through a pipe: at the fd limit, which tests meet, it has none and cries wolf.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=vptr>)
    target_link_options(${target} PRIVATE -fsanitize=${TENON_SANITIZE})
  endif()
endfunction()

function(tenon_compile_library_options target)
  tenon_compile_options(${target})
  set_target_properties(${target} PROPERTIES
    POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_definitions(${target} PRIVATE TENON_BUILDING)
  # So that the linker can leave out what nobody calls: the library is to be small.
  target_compile_options(${target} PRIVATE -ffunction-sections -fdata-sections "$<$<CONFIG:Release>:-O2>")
  target_link_libraries(${target} PRIVATE tenon_dlpack tenon_libdeflate Threads::Threads)
endfunction()

# One object library for each folder of impl, which names the folders it may use: those above it in impl/LAYERS. They share one
# include root, so tools/lint_layers.py is what refuses an include in the other direction. tenon_up_to_<folder> is what the tests of that
# folder link: an archive of its objects, and those of the folders above. What needs more does not link.
function(tenon_add_folders)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS impl/LAYERS)
  file(STRINGS impl/LAYERS folders REGEX "^[a-z]")
  list(TRANSFORM TENON_QUICK_SOURCES PREPEND "${PROJECT_SOURCE_DIR}/impl/" OUTPUT_VARIABLE quick_sources)
  set_property(SOURCE ${quick_sources} APPEND PROPERTY COMPILE_OPTIONS "${TENON_QUICK}")
  # In the folders that are not small as a whole, what waits for the driver, for other processes or for the system.
  file(GLOB small_sources "impl/share/*cuda*.cc" "impl/memory/arena_whole.cc" "capi/src/by_cuda.cc" "impl/share/manager*.cc" "impl/share/name*.cc"
    "impl/share/liveness.cc" "impl/os/process*.cc" "impl/os/local_socket.cc" "impl/os/huge_pages.cc" "impl/os/numa.cc" "impl/os/smaps.cc" "impl/os/thp.cc")
  set_property(SOURCE ${small_sources} APPEND PROPERTY COMPILE_OPTIONS "${TENON_SMALL}")
  set(allowed)
  set(objects)
  set(below)
  foreach(folder IN LISTS folders)
    file(GLOB sources CONFIGURE_DEPENDS "impl/${folder}/*.cc")
    if(folder STREQUAL "cuda" AND TENON_CUDA_INCLUDE_DIR)
      list(FILTER sources EXCLUDE REGEX "/absent\\.cc$")
    elseif(folder STREQUAL "cuda")
      list(FILTER sources INCLUDE REGEX "/absent\\.cc$")
    endif()
    if(sources)
      add_library(tenon_${folder} OBJECT ${sources})
      tenon_compile_library_options(tenon_${folder})
      target_include_directories(tenon_${folder} PUBLIC impl)
      if(folder STREQUAL "cuda" AND TENON_CUDA_INCLUDE_DIR)
        # For this folder alone: no other can include what includes cuda.h.
        target_include_directories(tenon_${folder} SYSTEM PRIVATE "${TENON_CUDA_INCLUDE_DIR}")
      endif()
      if(folder IN_LIST TENON_SMALL_FOLDERS)
        target_compile_options(tenon_${folder} PRIVATE "${TENON_SMALL}")
      endif()
      target_link_libraries(tenon_${folder} PUBLIC ${allowed})
      list(APPEND allowed tenon_${folder})
      list(APPEND objects "$<TARGET_OBJECTS:tenon_${folder}>")
      add_library(tenon_up_to_${folder} STATIC EXCLUDE_FROM_ALL "$<TARGET_OBJECTS:tenon_${folder}>")
      set_target_properties(tenon_up_to_${folder} PROPERTIES LINKER_LANGUAGE CXX)
      target_include_directories(tenon_up_to_${folder} INTERFACE "${PROJECT_SOURCE_DIR}/impl")
      target_link_libraries(tenon_up_to_${folder} INTERFACE ${below} tenon_libdeflate tenon_dlpack Threads::Threads ${CMAKE_DL_LIBS})
      set(below tenon_up_to_${folder})
    endif()
  endforeach()

  file(GLOB sources CONFIGURE_DEPENDS "capi/src/*.cc")
  if(sources)
    add_library(tenon_capi OBJECT ${sources})
    tenon_compile_library_options(tenon_capi)
    foreach(folder IN LISTS TENON_SMALL_FOLDERS)
      file(GLOB small_sources "capi/src/${folder}*.cc")
      set_property(SOURCE ${small_sources} APPEND PROPERTY COMPILE_OPTIONS "${TENON_SMALL}")
    endforeach()
    target_include_directories(tenon_capi PUBLIC capi/include "${PROJECT_BINARY_DIR}/include")
    target_link_libraries(tenon_capi PUBLIC ${allowed})
    list(APPEND objects "$<TARGET_OBJECTS:tenon_capi>")
  endif()
  set(TENON_OBJECTS "${objects}" PARENT_SCOPE)
endfunction()

function(tenon_add_library)
  add_library(tenon SHARED ${TENON_OBJECTS})
  add_library(tenon::tenon ALIAS tenon)
  set_target_properties(tenon PROPERTIES
    LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION ${TENON_ABI_VERSION}
    LINK_DEPENDS "${PROJECT_SOURCE_DIR}/capi/tenon.map")
  target_include_directories(tenon INTERFACE
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/capi/include>" "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>"
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/wrappers/cpp/include>")
  target_link_libraries(tenon PRIVATE tenon_libdeflate Threads::Threads ${CMAKE_DL_LIBS})
  target_link_options(tenon PRIVATE
    "LINKER:--version-script=${PROJECT_SOURCE_DIR}/capi/tenon.map" LINKER:--exclude-libs,ALL LINKER:--as-needed LINKER:--gc-sections
    # Fork hooks cannot be unregistered and a storage's deleter may run late: the code must outlive a dlclose.
    LINKER:-z,nodelete LINKER:-z,relro LINKER:-z,now)
  if(TENON_SANITIZE)
    target_link_options(tenon PRIVATE -fsanitize=${TENON_SANITIZE})
  else()
    # A sanitizer's run-time symbols are resolved from the program, so this check is for plain builds.
    target_link_options(tenon PRIVATE LINKER:-z,defs)
  endif()

  # Everything as an archive, for tests that look inside.
  add_library(tenon_internal STATIC EXCLUDE_FROM_ALL ${TENON_OBJECTS})
  set_target_properties(tenon_internal PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(tenon_internal INTERFACE
    "${PROJECT_SOURCE_DIR}/impl" "${PROJECT_SOURCE_DIR}/capi/include" "${PROJECT_BINARY_DIR}/include")
  target_link_libraries(tenon_internal INTERFACE tenon_libdeflate tenon_dlpack Threads::Threads ${CMAKE_DL_LIBS})
endfunction()
