# CBC of COIN-OR (Debian's coinor-libcbc-dev) with all that it calls, as tracecast::cbc: static archives where there are any,
# in the order in which they call each other, so that the one binary needs the C library alone.
set(TRACECAST_CBC_LIBRARIES)
foreach(name IN ITEMS Cbc Cgl OsiClp Clp Osi CoinUtils lapack blas bz2)
  find_library(TRACECAST_LIB_${name} NAMES lib${name}.a ${name} REQUIRED)
  list(APPEND TRACECAST_CBC_LIBRARIES ${TRACECAST_LIB_${name}})
endforeach()
find_path(TRACECAST_CBC_HEADERS coin/CbcModel.hpp REQUIRED)
# Fortran's runtime, for lapack and blas, lies beside the C++ compiler's own.
foreach(name IN ITEMS gfortran quadmath)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=lib${name}.a
                  OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(IS_ABSOLUTE "${path}")
    list(APPEND TRACECAST_CBC_LIBRARIES ${path})
  else()
    find_library(TRACECAST_LIB_${name} NAMES ${name} lib${name}.so.5 lib${name}.so.0 REQUIRED)
    list(APPEND TRACECAST_CBC_LIBRARIES ${TRACECAST_LIB_${name}})
  endif()
endforeach()
if(NOT TARGET tracecast::cbc)
  find_package(ZLIB REQUIRED)
  list(POP_FRONT TRACECAST_CBC_LIBRARIES TRACECAST_CBC)
  add_library(tracecast::cbc UNKNOWN IMPORTED GLOBAL)
  set_target_properties(tracecast::cbc PROPERTIES
    IMPORTED_LOCATION ${TRACECAST_CBC} INTERFACE_INCLUDE_DIRECTORIES ${TRACECAST_CBC_HEADERS}
    INTERFACE_LINK_LIBRARIES "${TRACECAST_CBC_LIBRARIES};${ZLIB_LIBRARIES};m")  # by path: a target would stand before other paths
endif()
