# TENON_MODULES=OFF: defines the functions for modules and their values, which stay in the ABI.

# tenon_make_no_modules(<variable>): writes a source that defines each function of the headers
# below, and puts its path into <variable>. The definitions of functions that return tenon_status
# are made from their declarations, and return an error. The other functions are defined in
# capi/src/modules/no_modules.cc.in. If one is missing there, the configuration ends.
function(tenon_make_no_modules variable)
  set(template capi/src/modules/no_modules.cc.in)
  file(READ ${template} written)
  set(TENON_REFUSALS)
  foreach(topic IN ITEMS value module archive package weights shared_weights)
    set(header capi/include/tenon/${topic}.h)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
    file(READ ${header} text)
    string(REGEX REPLACE "[ \n]+" " " text "${text}")
    string(REGEX MATCHALL "TENON_API [^;]*TENON_NOEXCEPT" declarations "${text}")
    foreach(declaration IN LISTS declarations)
      if(declaration MATCHES "^TENON_API tenon_status .*tenon_error \\*\\*err\\)")
        string(APPEND TENON_REFUSALS "${declaration} { return no_modules(err); }\n")
        continue()
      endif()
      string(REGEX MATCH "tenon_[a-z_]+\\(" function "${declaration}")
      string(FIND "${written}" " ${function}" place)
      if(place EQUAL -1)
        message(FATAL_ERROR "${template} does not define a function of ${header}: ${declaration}")
      endif()
    endforeach()
  endforeach()
  configure_file(${template} "${PROJECT_BINARY_DIR}/no_modules.cc" @ONLY)
  set(${variable} "${PROJECT_BINARY_DIR}/no_modules.cc" PARENT_SCOPE)
endfunction()
