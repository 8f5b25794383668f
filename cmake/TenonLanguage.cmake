# Functions that write a JSON file of commands for each language. tests/languages/vectors,
# tests/languages/matrix and tests/peers/module/builders read there which programs a language has.
#
#   tenon_write_language(<file> <key> "<word>;..." [<key> "<word>;..."]... ENVIRONMENT
#       "<NAME=value>;...")
#
# Each key gets an array of words (empty: none), "environment" an object. Generator expressions are
# allowed in words.
#
#   tenon_add_languages()    adds each folder of the caller's that has a CMakeLists.txt: a language

function(_tenon_json_text out text)
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  set(${out} "\"${text}\"" PARENT_SCOPE)
endfunction()

function(tenon_write_language file)
  set(body "{")
  set(rest "${ARGN}")
  math(EXPR last "${ARGC} - 1")
  set(index 1)
  while(index LESS last)
    set(key "${ARGV${index}}")
    math(EXPR next "${index} + 1")
    set(words "${ARGV${next}}")
    math(EXPR index "${index} + 2")
    set(items "")
    foreach(word IN LISTS words)
      if(key STREQUAL "ENVIRONMENT")
        string(FIND "${word}" "=" equals)
        string(SUBSTRING "${word}" 0 ${equals} name)
        math(EXPR equals "${equals} + 1")
        string(SUBSTRING "${word}" ${equals} -1 value)
        _tenon_json_text(name "${name}")
        _tenon_json_text(value "${value}")
        list(APPEND items "${name}: ${value}")
      else()
        _tenon_json_text(word "${word}")
        list(APPEND items "${word}")
      endif()
    endforeach()
    list(JOIN items ", " items)
    if(key STREQUAL "ENVIRONMENT")
      string(APPEND body "\"environment\": {${items}}")
    else()
      string(APPEND body "\"${key}\": [${items}], ")
    endif()
  endwhile()
  file(GENERATE OUTPUT "${file}" CONTENT "${body}}\n")
endfunction()

function(tenon_add_languages)
  file(GLOB languages CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*/CMakeLists.txt")
  foreach(language IN LISTS languages)
    cmake_path(GET language PARENT_PATH language)
    add_subdirectory("${language}")
  endforeach()
endfunction()
