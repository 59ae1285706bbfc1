# {fmt} compiled once, as tracecast::fmt: Debian has it as a shared library or as headers alone; the one binary wants neither.
add_library(tracecast_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt.cpp)
add_library(tracecast::fmt ALIAS tracecast_fmt)
set_target_properties(tracecast_fmt PROPERTIES EXPORT_NAME fmt POSITION_INDEPENDENT_CODE ON)
target_compile_features(tracecast_fmt PUBLIC cxx_std_20)
install(TARGETS tracecast_fmt EXPORT tracecast ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
