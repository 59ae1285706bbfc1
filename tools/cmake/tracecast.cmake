# Rules that every folder's CMakeLists.txt uses.
include(GNUInstallDirs)

# What most sources include, parsed once: an object library of one empty source whose precompiled header others reuse.
# Its compiler options and theirs must be the same.
set(TRACECAST_STANDARD_HEADERS <algorithm> <array> <cmath> <cstdint> <filesystem> <functional> <map> <memory> <optional>
    <set> <span> <sstream> <string> <string_view> <unordered_map> <utility> <variant> <vector>)
function(tracecast_precompiled target)
  cmake_parse_arguments(ARG "PIC" "" "OPTIONS;HEADERS;LIBS" ${ARGN})
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${target}.cpp CONTENT "// Nothing: see tracecast_precompiled.\n")
  add_library(${target} OBJECT ${PROJECT_BINARY_DIR}/${target}.cpp)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ${ARG_PIC})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE ${ARG_OPTIONS})
  target_link_libraries(${target} PRIVATE ${ARG_LIBS})
  target_precompile_headers(${target} PRIVATE ${TRACECAST_STANDARD_HEADERS} ${ARG_HEADERS})
endfunction()

# tracecast_optimize(<target> [small|fast]): what is run once is compiled for size, what users wait for with -O3; and the
# precompiled header that fits. The last -O counts.
function(tracecast_optimize target)
  if("${ARGN}" STREQUAL small)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Os>)
    target_precompile_headers(${target} REUSE_FROM tracecast_precompiled_small)
  elseif("${ARGN}" STREQUAL fast)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O3>)
  else()
    target_precompile_headers(${target} REUSE_FROM tracecast_precompiled)
  endif()
endfunction()

# tracecast_small_sources(<source>...): these sources of the current folder alone are compiled for size.
function(tracecast_small_sources)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-Os> SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# tracecast_library(<box> [OPTIMIZE small|fast] SOURCES ... HEADERS ... [DEPS <box>...] [PRIVATE_LIBS <target>...])
# One box of the include table: a static library `tracecast_<box>`, alias `tracecast::<box>`.
# HEADERS are public and must each compile alone; third-party libraries stay private to the sources.
# A compiled third-party library follows the archive to whoever links it (see tracecast-config.cmake.in);
# a header-only one is needed to build the archive and no longer.
function(tracecast_library box)
  cmake_parse_arguments(ARG "" "OPTIMIZE" "SOURCES;HEADERS;DEPS;PRIVATE_LIBS" ${ARGN})
  set(target tracecast_${box})
  add_library(${target} STATIC ${ARG_SOURCES})
  add_library(tracecast::${box} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${box} POSITION_INDEPENDENT_CODE ON
                        VERIFY_INTERFACE_HEADER_SETS ON)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE ${TRACECAST_COMPILE_OPTIONS})
  tracecast_optimize(${target} ${ARG_OPTIMIZE})
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${ARG_HEADERS})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(${target} SYSTEM PRIVATE ${PROJECT_BINARY_DIR}/generated)
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${target} PUBLIC tracecast::${dep})
  endforeach()
  foreach(lib IN LISTS ARG_PRIVATE_LIBS)
    get_target_property(type ${lib} TYPE)
    if(type STREQUAL INTERFACE_LIBRARY)
      target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:${lib}>)
    else()
      target_link_libraries(${target} PRIVATE ${lib})
    endif()
  endforeach()
  install(TARGETS ${target} EXPORT tracecast ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
          FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tracecast)
endfunction()

# tracecast_proto(<target> FILES <file.proto>...)
# The C++ messages of FILES (relative to the current folder), private to the target's sources, which include them
# by their path from the root: "hwspecs/schema/gpu.pb.h". Imports are written from the root as well.
# Their code is compiled without our warnings. Link protobuf::libprotobuf through PRIVATE_LIBS.
function(tracecast_proto target)
  cmake_parse_arguments(ARG "" "" "FILES" ${ARGN})
  set(generated ${PROJECT_BINARY_DIR}/generated)
  file(MAKE_DIRECTORY ${generated})
  foreach(file IN LISTS ARG_FILES)
    set(path ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    file(RELATIVE_PATH stem ${PROJECT_SOURCE_DIR} ${path})
    string(REGEX REPLACE "[.]proto$" "" stem ${stem})
    add_custom_command(OUTPUT ${generated}/${stem}.pb.cc ${generated}/${stem}.pb.h
      COMMAND protobuf::protoc --proto_path=${PROJECT_SOURCE_DIR} --cpp_out=${generated} ${path}
      DEPENDS ${path} VERBATIM COMMENT "Generating ${stem}.pb.h")
    set_source_files_properties(${generated}/${stem}.pb.cc PROPERTIES COMPILE_OPTIONS -w)
    target_sources(${target} PRIVATE ${generated}/${stem}.pb.cc ${generated}/${stem}.pb.h)
  endforeach()
endfunction()

# tracecast_program(<target>): links the C++ runtime into an executable that people copy to other machines, so
# that it needs the C library alone.
function(tracecast_program target)
  target_compile_options(${target} PRIVATE ${TRACECAST_COMPILE_OPTIONS})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endfunction()

# tracecast_test(<name> SOURCES ... DEPS <box>... [LIBS <target>...] [LABELS ...])
# One doctest program; every test case becomes one ctest test. A case that prints "[skipped]" counts as skipped.
function(tracecast_test name)
  if(NOT TRACECAST_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS;LABELS" ${ARGN})
  set(target ${name}_test)
  add_executable(${target} ${ARG_SOURCES})
  target_compile_options(${target} PRIVATE ${TRACECAST_COMPILE_OPTIONS} ${TRACECAST_TEST_OPTIONS})
  target_precompile_headers(${target} REUSE_FROM tracecast_test_precompiled)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE tracecast_test_main ${ARG_LIBS})
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${target} PRIVATE tracecast::${dep})
  endforeach()
  set(list ${CMAKE_CURRENT_BINARY_DIR}/${target}_list.cmake)
  add_custom_command(TARGET ${target} POST_BUILD BYPRODUCTS ${list}
    COMMAND ${CMAKE_COMMAND} -DEXECUTABLE=$<TARGET_FILE:${target}> -DNAME=${name} -DOUTPUT=${list}
            -DWORKING_DIRECTORY=${PROJECT_SOURCE_DIR} "-DLABELS=${ARG_LABELS}"
            -P ${PROJECT_SOURCE_DIR}/tools/cmake/discover_tests.cmake VERBATIM)
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake CONTENT
    "if(EXISTS \"${list}\")\n  include(\"${list}\")\nelse()\n  add_test(${target}_NOT_BUILT ${target}_NOT_BUILT)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake)
endfunction()

# tracecast_bench(<name> SOURCES ... DEPS <box>...): a plain program; its one-repeat smoke run is a ctest test.
function(tracecast_bench name)
  if(NOT TRACECAST_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  set(target ${name}_bench)
  add_executable(${target} ${ARG_SOURCES})
  target_compile_options(${target} PRIVATE ${TRACECAST_COMPILE_OPTIONS})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE ${ARG_LIBS})
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${target} PRIVATE tracecast::${dep})
  endforeach()
  add_test(NAME "bench: ${name} (smoke)" COMMAND ${target} --smoke WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties("bench: ${name} (smoke)" PROPERTIES LABELS bench TIMEOUT 300)
endfunction()

# tracecast_embed(<target> <symbol> <output> FILES ...): the files' bytes as string constants in the binary.
# The generated source defines `std::span<const EmbeddedFile> <symbol>()` of sim/base/embedded.hpp.
function(tracecast_embed target symbol)
  cmake_parse_arguments(ARG "" "" "FILES" ${ARGN})
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.cpp)
  set(paths)
  foreach(file IN LISTS ARG_FILES)
    list(APPEND paths ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  endforeach()
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DSYMBOL=${symbol} -DOUTPUT=${output} -DROOT=${PROJECT_SOURCE_DIR}
            "-DFILES=${paths}" -P ${PROJECT_SOURCE_DIR}/tools/cmake/embed.cmake
    DEPENDS ${paths} ${PROJECT_SOURCE_DIR}/tools/cmake/embed.cmake VERBATIM
    COMMENT "Embedding ${symbol}")
  target_sources(${target} PRIVATE ${output})
endfunction()
