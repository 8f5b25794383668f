# The functions with which tests/**/CMakeLists.txt register their tests. Every test has one label,
# its kind. A test named example.* has the label examples too, and example.*.cuda_* the label cuda.
# A test whose name says composite or sparse has the label layouts too, and one of impl/object the
# label splitpickle. One of impl/modules/bytecode or impl/modules/compile has the label bytecode or
# compile.
#
#   tenon_add_gtest(<name> LABEL <label> SOURCES <file>... [MAIN <file>]
#                   [INTERNAL | FOLDER <folder>] [UNPRIVILEGED] [TIMEOUT <s>]
#                   [LIBRARIES <target>...] [ENVIRONMENT <NAME=value>...])
#   tenon_add_gtest_program(<program> SOURCES <file>... [MAIN <file>] [INTERNAL | FOLDER <folder>]
#                           [LIBRARIES <target>...])
#   tenon_add_gtest_file(<name> PROGRAM <program> FILE <topic>_test.cc LABEL <label>
#                        [UNPRIVILEGED | AS_USER] [TIMEOUT <s>] [ENVIRONMENT <NAME=value>...])
#   tenon_add_c_program(<name> SOURCES <file>... [INTERNAL] [LIBRARIES <target>...])
#                       C99; no test by itself
#   tenon_add_test(<name> LABEL <label> COMMAND <word>... [UNPRIVILEGED | AS_USER] [TIMEOUT <s>]
#                  [INPUTS <pathspec>...] [ENVIRONMENT <NAME=value>...])
#
# A folder of tests is one program, tenon_add_gtest_program, so that the library is linked once.
# Each of its files is a test that runs in a process of its own, tenon_add_gtest_file.
# tenon_add_gtest is for a file that needs a program of its own, such as one that replaces malloc.
# MAIN is a source with a main function of its own.
#
# INTERNAL links the archive of the whole library, and FOLDER that of a folder of impl and those
# above it. Without either, a test links the shared library, as a user does. UNPRIVILEGED registers
# <name>.unprivileged too, which runs as another uid when the caller is root. AS_USER is for long
# tests that need no right of root's: when the caller is root, <name> itself runs as another uid,
# and only the builds with sanitizers run it as root. TIMEOUT is 600 by default. It is meant for
# tests that hang, and a slow machine may need ten times the usual time. Asserts stay on in every
# build type.
#
# INPUTS is for slow tests whose result follows from files alone: packages, other compilers, lints,
# the model checker, texts that are compared with PyTorch's, tests of tests. It names all files that
# the test reads, as git's pathspecs. A second whole run on one machine skips such a test if none of
# these files has changed since the test passed (tests/support/unchanged.py).

find_package(GTest REQUIRED)

# The Python that tools/setup.sh prepares, for tests that are Python programs. The environment of a
# test names it as TENON_PYTHON.
set(TENON_PYTHON "${PROJECT_SOURCE_DIR}/build/venv/bin/python3"
  CACHE FILEPATH "The Python that has Tenon's package and what its tests need")
set(TENON_UNPRIVILEGED "${PROJECT_SOURCE_DIR}/tools/unprivileged.sh")

# The labels, and what each one holds. tools/test prints them too.
set_property(DIRECTORY APPEND
  PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/labels.txt")
file(STRINGS "${PROJECT_SOURCE_DIR}/tests/labels.txt" TENON_LABELS REGEX "^[a-z]")
list(TRANSFORM TENON_LABELS REPLACE " .*" "")

# The INPUTS of a test that uses the library.
set(TENON_ALL_BUT_DOCS . ":(exclude)docs" ":(glob,exclude)*.md")

# This program starts every test. If a test fails or hangs, tenon_record records the circumstances
# in <build>/failures.
add_executable(tenon_record "${PROJECT_SOURCE_DIR}/tests/support/record.c")
target_compile_definitions(tenon_record
  PRIVATE TENON_RECORD_STATE="${PROJECT_SOURCE_DIR}/tests/support/record_state.py")
set_target_properties(tenon_record PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
target_compile_options(tenon_record PRIVATE ${TENON_WARNINGS})
# tenon_record ends a test at the test's limit, and needs this many seconds more to record a test
# that hangs.
set(TENON_RECORD_SECONDS 150)

function(tenon_compile_test_options target)
  tenon_compile_options(${target})
  target_compile_options(${target} PRIVATE -UNDEBUG)
  if(TENON_SANITIZE)
    # Only the library has to be quick there. For a test's own code the optimiser takes longer than
    # the test gains.
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

# GoogleTest's headers take longer to read than most tests, so they are precompiled once with the
# options of the tests.
file(WRITE "${PROJECT_BINARY_DIR}/gtest_headers.cc" "")
add_library(tenon_gtest_headers OBJECT EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/gtest_headers.cc")
tenon_compile_test_options(tenon_gtest_headers)
target_compile_options(tenon_gtest_headers PRIVATE -Wno-dangling-else)
target_link_libraries(tenon_gtest_headers PRIVATE GTest::gtest)
tenon_precompile(tenon_gtest_headers PRIVATE
  <gtest/gtest.h> <algorithm> <array> <atomic> <chrono> <condition_variable> <cstring> <filesystem>
  <fstream> <functional> <map> <memory> <mutex> <optional> <random> <set> <span> <sstream> <string>
  <string_view> <thread> <unordered_map> <vector>)

# tenon_link_test(<target> <archive>): links a test with the archive, or with the shared library if
# `archive` is empty.
function(tenon_link_test target archive)
  tenon_compile_test_options(${target})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  if(archive)
    # Such a test also compares the public headers with the inside of the library.
    target_include_directories(${target}
      PRIVATE "${PROJECT_SOURCE_DIR}/capi/include" "${PROJECT_BINARY_DIR}/include")
    target_link_libraries(${target} PRIVATE ${archive})
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  else()
    target_link_libraries(${target} PRIVATE tenon::tenon)
  endif()
  target_link_libraries(${target} PRIVATE tenon_dlpack Threads::Threads)
  # The objects of the library hold many source files each (TENON_UNITY), and a test uses few of
  # their functions.
  target_link_options(${target} PRIVATE LINKER:--gc-sections)
endfunction()

# tenon_leave_out(<variable> <test> <program>): sets the variable to ON if tests/CMakeLists.txt
# lists the test among those without threads and this build has ThreadSanitizer. The program is then
# compiled only if it is built by name.
function(tenon_leave_out variable test program)
  set(${variable} OFF PARENT_SCOPE)
  if(TENON_TESTS_WITHOUT_THREADS AND test MATCHES "^(${TENON_TESTS_WITHOUT_THREADS})$")
    set_target_properties(${program} PROPERTIES EXCLUDE_FROM_ALL ON)
    set(${variable} ON PARENT_SCOPE)
  endif()
endfunction()

function(tenon_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "UNPRIVILEGED;AS_USER" "LABEL;TIMEOUT"
    "COMMAND;INPUTS;ENVIRONMENT")
  if(NOT arg_LABEL OR NOT arg_COMMAND OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR
      "tenon_add_test(${name}): needs LABEL and COMMAND; does not know '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(TENON_TESTS_WITHOUT_THREADS AND name MATCHES "^(${TENON_TESTS_WITHOUT_THREADS})$")
    return() # tests/CMakeLists.txt says why
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)
  endif()
  # ThreadSanitizer: a child of fork starts the library's thread, so it must not die then. The
  # default pause of a second at every exit would take most of the run.
  set(environment
    "TENON_SOURCE_DIR=${PROJECT_SOURCE_DIR}" "TENON_BUILD_DIR=${PROJECT_BINARY_DIR}"
    "TENON_PYTHON=${TENON_PYTHON}" "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1"
    "ASAN_OPTIONS=handle_sigill=1:detect_stack_use_after_return=1:strict_string_checks=1"
    "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:die_after_fork=0:atexit_sleep_ms=50"
    ${arg_ENVIRONMENT})

  if(NOT arg_LABEL IN_LIST TENON_LABELS)
    message(FATAL_ERROR
      "tenon_add_test(${name}): tests/labels.txt does not have the label '${arg_LABEL}'")
  endif()
  set(record "$<TARGET_FILE:tenon_record>" --timeout ${arg_TIMEOUT}
    --log-dir "${PROJECT_BINARY_DIR}/failures" --cpu-log "${PROJECT_BINARY_DIR}/cpu.txt")
  if(arg_INPUTS)
    list(PREPEND arg_COMMAND "${TENON_PYTHON}" -B "${PROJECT_SOURCE_DIR}/tests/support/unchanged.py"
      --name ${name} --build-dir "${PROJECT_BINARY_DIR}" --inputs ${arg_INPUTS} --)
  endif()
  if(arg_AS_USER AND NOT TENON_SANITIZE)
    list(PREPEND arg_COMMAND "${TENON_UNPRIVILEGED}" --or-as-root)
  endif()
  math(EXPR ctest_timeout "${arg_TIMEOUT} + ${TENON_RECORD_SECONDS}")
  add_test(NAME ${name} COMMAND ${record} --name ${name} -- ${arg_COMMAND})
  set(tests ${name})
  # The rights of another uid do not depend on a sanitizer, so only plain builds test them.
  if(arg_UNPRIVILEGED AND NOT TENON_SANITIZE)
    add_test(NAME ${name}.unprivileged
      COMMAND ${record} --name ${name}.unprivileged -- "${TENON_UNPRIVILEGED}" ${arg_COMMAND})
    list(APPEND tests ${name}.unprivileged)
  endif()
  set(labels "${arg_LABEL}")
  if(name MATCHES "^example\\.")
    list(APPEND labels examples)
  endif()
  if(name MATCHES "^example\\..*\\.cuda_")
    list(APPEND labels cuda)
  endif()
  string(CONCAT uses_queues
    "deposit|fuzz_ticket|^python\\.(multiprocessing|spawn|names)$|^storm\\.(queues|loader)$|"
    "^dropin\\.(row|reference)\\.")
  if(name MATCHES "${uses_queues}")
    list(APPEND labels queue)
  endif()
  if(name MATCHES "composite|sparse")
    list(APPEND labels layouts)
  endif()
  if(name MATCHES "^(capi\\.object(_hostile)?|fuzz_object|unit_object_.*)$")
    list(APPEND labels splitpickle)
  endif()
  if(name MATCHES "^(.*_bytecode|.*\\.bytecode|unit_bytecode_.*|unit_module_kept_bytecode)$")
    list(APPEND labels bytecode)
  endif()
  if(name MATCHES "^(compile\\.[a-z]+\\.(models|runs)|fuzz_flatbuffer|unit_flatbuffer_.*)$")
    list(APPEND labels flatbuffer)
  endif()
  if(name MATCHES "^(fuzz_compile|unit_compile_.*)$")
    list(APPEND labels compile)
  endif()
  # Exit status 77 means that this machine lacks what the test needs. CTest prints the test as
  # skipped.
  set_tests_properties(${tests} PROPERTIES
    LABELS "${labels}" TIMEOUT ${ctest_timeout} ENVIRONMENT "${environment}" SKIP_RETURN_CODE 77)
endfunction()

function(tenon_use_gtest target)
  # GoogleTest's macros may follow `if (x)` without braces. gcc takes the `else` inside of the macro
  # for a dangling one.
  target_compile_options(${target} PRIVATE -Wno-dangling-else)
  target_link_libraries(${target} PRIVATE GTest::gtest)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "HEADERS" "")
  if(NOT arg_HEADERS)
    set(arg_HEADERS tenon_gtest_headers)
  endif()
  tenon_precompile(${target} REUSE_FROM ${arg_HEADERS})
endfunction()

# The C++ wrapper's headers take seconds to read. A program that uses them gets them precompiled.
add_library(tenon_wrapper_headers OBJECT EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/gtest_headers.cc")
tenon_link_test(tenon_wrapper_headers "")
target_link_libraries(tenon_wrapper_headers PRIVATE GTest::gtest)
target_compile_options(tenon_wrapper_headers PRIVATE -Wno-dangling-else)
tenon_precompile(tenon_wrapper_headers PRIVATE <gtest/gtest.h> <tenon/tenon.hpp>)

# tenon_use_wrapper(<target>): for a test that includes tenon/tenon.hpp and not GoogleTest.
function(tenon_use_wrapper target)
  tenon_link_test(${target} "")
  # gcc takes a precompiled header only if the options are the same.
  target_link_libraries(${target} PRIVATE GTest::gtest)
  tenon_precompile(${target} REUSE_FROM tenon_wrapper_headers)
endfunction()

add_library(tenon_test_main OBJECT EXCLUDE_FROM_ALL
  "${PROJECT_SOURCE_DIR}/tests/support/test_main.cc")
tenon_compile_test_options(tenon_test_main)
target_include_directories(tenon_test_main PRIVATE "${PROJECT_SOURCE_DIR}/tests")
tenon_use_gtest(tenon_test_main)

function(tenon_add_gtest_program program)
  cmake_parse_arguments(PARSE_ARGV 1 arg "INTERNAL" "FOLDER;MAIN" "SOURCES;LIBRARIES")
  if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenon_add_gtest_program(${program}): needs SOURCES; "
      "does not know '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT arg_MAIN)
    set(arg_MAIN $<TARGET_OBJECTS:tenon_test_main>)
  endif()
  add_executable(${program} ${arg_SOURCES} ${arg_MAIN})
  set(archive)
  if(arg_INTERNAL)
    set(archive tenon_internal)
  elseif(arg_FOLDER)
    set(archive tenon_up_to_${arg_FOLDER})
  endif()
  tenon_link_test(${program} "${archive}")
  tenon_use_gtest(${program})
  tenon_compile_together(${program})
  target_link_libraries(${program} PRIVATE ${arg_LIBRARIES})
endfunction()

# The engine of the storms (tests/support/storm/engine.h): the MAIN of a storm's program is
# "$<TARGET_OBJECTS:tenon_storm_engine>".
set(_tenon_storm "${PROJECT_SOURCE_DIR}/tests/support/storm")
add_library(tenon_storm_engine OBJECT EXCLUDE_FROM_ALL "${_tenon_storm}/engine.cc"
  "${_tenon_storm}/crew.cc" "${_tenon_storm}/killer.cc" "${_tenon_storm}/peer.cc")
tenon_link_test(tenon_storm_engine "")
tenon_use_gtest(tenon_storm_engine)
tenon_compile_together(tenon_storm_engine)

# _tenon_pass_on(<variable>): collects the caller's arguments that tenon_add_test takes too.
macro(_tenon_pass_on variable)
  set(${variable})
  foreach(option IN ITEMS UNPRIVILEGED AS_USER)
    if(arg_${option})
      list(APPEND ${variable} ${option})
    endif()
  endforeach()
  if(arg_TIMEOUT)
    list(APPEND ${variable} TIMEOUT ${arg_TIMEOUT})
  endif()
  if(arg_ENVIRONMENT)
    list(APPEND ${variable} ENVIRONMENT ${arg_ENVIRONMENT})
  endif()
endmacro()

# The target tenon_tests_<label> builds only the programs of a label. tools/test uses it for the
# label unit.
function(_tenon_belongs label program)
  if(NOT TARGET tenon_tests_${label})
    add_custom_target(tenon_tests_${label})
    add_dependencies(tenon_tests_${label} tenon_record)
  endif()
  # The target of a program may be defined after its tests.
  cmake_language(EVAL CODE
    "cmake_language(DEFER CALL add_dependencies tenon_tests_${label} ${program})")
endfunction()

function(tenon_add_gtest_file name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "UNPRIVILEGED;AS_USER" "PROGRAM;FILE;LABEL;TIMEOUT"
    "ENVIRONMENT")
  if(NOT arg_PROGRAM OR NOT arg_FILE OR NOT arg_LABEL OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenon_add_gtest_file(${name}): needs PROGRAM, FILE and LABEL; "
      "does not know '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  _tenon_pass_on(pass)
  tenon_add_test(${name} LABEL ${arg_LABEL}
    COMMAND "$<TARGET_FILE:${arg_PROGRAM}>" "--file=${arg_FILE}" ${pass})
  _tenon_belongs(${arg_LABEL} ${arg_PROGRAM})
endfunction()

function(tenon_add_gtest name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "INTERNAL;UNPRIVILEGED" "LABEL;TIMEOUT;FOLDER;MAIN"
    "SOURCES;LIBRARIES;ENVIRONMENT")
  if(NOT arg_LABEL OR NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenon_add_gtest(${name}): needs LABEL and SOURCES; "
      "does not know '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  set(links)
  if(arg_INTERNAL)
    set(links INTERNAL)
  elseif(arg_FOLDER)
    set(links FOLDER ${arg_FOLDER})
  endif()
  tenon_add_gtest_program(${name} SOURCES ${arg_SOURCES} ${links} MAIN "${arg_MAIN}"
    LIBRARIES ${arg_LIBRARIES})
  tenon_leave_out(is_left_out ${name} ${name})
  if(is_left_out)
    return()
  endif()
  _tenon_pass_on(pass)
  tenon_add_test(${name} LABEL ${arg_LABEL} COMMAND "$<TARGET_FILE:${name}>" ${pass})
  _tenon_belongs(${arg_LABEL} ${name})
endfunction()

# tenon_add_gtest_folder(<prefix> LABEL <label> [MAIN main.cc] [INTERNAL] [UNPRIVILEGED <topic>...]
#                        [ENVIRONMENT <NAME=value>...] [AS_USER <topic>...] [ALONE <topic>...])
#
# Adds one program, <prefix>_tests, of all *_test.cc of the caller's folder and of MAIN, and a test
# <prefix>_<topic> for each *_test.cc. UNPRIVILEGED names the topics that run as another uid
# too, and AS_USER those that run only as another uid (see tenon_add_test). ALONE names topics that
# the caller adds itself, because each needs a program of its own.
function(tenon_add_gtest_folder prefix)
  cmake_parse_arguments(PARSE_ARGV 1 arg "INTERNAL" "LABEL;MAIN"
    "ENVIRONMENT;ALONE;UNPRIVILEGED;AS_USER")
  if(NOT arg_LABEL OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR
      "tenon_add_gtest_folder(${prefix}): needs LABEL; does not know '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  file(GLOB topics CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" "*_test.cc")
  list(TRANSFORM topics REPLACE "_test\\.cc$" "")
  list(REMOVE_ITEM topics ${arg_ALONE})
  foreach(topic IN LISTS arg_UNPRIVILEGED arg_AS_USER)
    if(NOT topic IN_LIST topics)
      message(FATAL_ERROR "tenon_add_gtest_folder(${prefix}): there is no ${topic}_test.cc")
    endif()
  endforeach()
  list(TRANSFORM topics APPEND _test.cc OUTPUT_VARIABLE sources)
  set(links)
  if(arg_INTERNAL)
    set(links INTERNAL)
  endif()
  tenon_add_gtest_program(${prefix}_tests SOURCES ${sources} MAIN "${arg_MAIN}" ${links})
  foreach(topic IN LISTS topics)
    set(pass ENVIRONMENT ${arg_ENVIRONMENT})
    if(topic IN_LIST arg_UNPRIVILEGED)
      list(APPEND pass UNPRIVILEGED)
    elseif(topic IN_LIST arg_AS_USER)
      list(APPEND pass AS_USER)
    endif()
    tenon_add_gtest_file(${prefix}_${topic} PROGRAM ${prefix}_tests FILE ${topic}_test.cc
      LABEL ${arg_LABEL} ${pass})
  endforeach()
endfunction()

function(tenon_add_c_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "INTERNAL" "" "SOURCES;LIBRARIES")
  if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR
      "tenon_add_c_program(${name}): needs SOURCES; does not know '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  set(archive)
  if(arg_INTERNAL)
    set(archive tenon_internal)
  endif()
  add_executable(${name} ${arg_SOURCES})
  tenon_link_test(${name} "${archive}")
  if(arg_LIBRARIES)
    target_link_libraries(${name} PRIVATE ${arg_LIBRARIES})
  endif()
endfunction()
