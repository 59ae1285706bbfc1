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
  if("${ARGN}" STREQUAL "small")
    target_compile_options(${target} PRIVATE ${TRACECAST_SMALL_OPTIONS})
    target_precompile_headers(${target} REUSE_FROM tracecast_precompiled_small)
  elseif("${ARGN}" STREQUAL "fast")
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O3>)
  else()
    target_precompile_headers(${target} REUSE_FROM tracecast_precompiled)
  endif()
endfunction()

# tracecast_unity(<target>): with TRACECAST_UNITY its sources, those of the current folder's list when that is read to its
# end, are compiled twenty at a time, but for those named to tracecast_apart.
function(tracecast_unity target)
  if(TRACECAST_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    cmake_language(EVAL CODE "cmake_language(DEFER CALL tracecast_batches ${target})")
  endif()
endfunction()

# tracecast_batches(<target>): a group for each source that has none; batches of about one size.
function(tracecast_batches target)
  get_target_property(sources ${target} SOURCES)
  set(left "")
  foreach(source IN LISTS sources)
    get_source_file_property(group ${source} UNITY_GROUP)
    if(source MATCHES "[.]cpp$" AND NOT group)
      list(APPEND left ${source})
    endif()
  endforeach()
  list(LENGTH left number)
  math(EXPR batches "(${number} + 19) / 20")
  set(index 0)
  foreach(source IN LISTS left)
    math(EXPR batch "${index} * ${batches} / ${number}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP batch_${batch})
    math(EXPR index "${index} + 1")
  endforeach()
endfunction()

# tracecast_apart(<source>...): these sources of the current folder have private names that another of their target has
# too, and none in common: a batch of their own.
function(tracecast_apart)
  list(GET ARGN 0 first)
  cmake_path(GET first STEM stem)
  if(TRACECAST_UNITY)
    set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP apart_${stem})
  endif()
endfunction()

# tracecast_library(<box> [OPTIMIZE small|fast] SOURCES ... HEADERS ... [DEPS <box>...] [PRIVATE_LIBS <target>...])
# One box of the include table: a static library `tracecast_<box>`, alias `tracecast::<box>`.
# HEADERS are public and must each compile alone (tools/check_headers); third-party libraries stay private to the sources.
# A compiled third-party library follows the archive to whoever links it (see tracecast-config.cmake.in);
# a header-only one is needed to build the archive and no longer.
function(tracecast_library box)
  cmake_parse_arguments(ARG "" "OPTIMIZE" "SOURCES;HEADERS;DEPS;PRIVATE_LIBS" ${ARGN})
  set(target tracecast_${box})
  add_library(${target} STATIC ${ARG_SOURCES})
  add_library(tracecast::${box} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${box} POSITION_INDEPENDENT_CODE ON)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE ${TRACECAST_COMPILE_OPTIONS})
  tracecast_optimize(${target} ${ARG_OPTIMIZE})
  tracecast_unity(${target})
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${ARG_HEADERS})
  list(TRANSFORM ARG_HEADERS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE headers)
  set_property(GLOBAL APPEND PROPERTY TRACECAST_PUBLIC_HEADERS ${headers})
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
  set(sources)
  foreach(file IN LISTS ARG_FILES)
    set(path ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    file(RELATIVE_PATH stem ${PROJECT_SOURCE_DIR} ${path})
    string(REGEX REPLACE "[.]proto$" "" stem ${stem})
    add_custom_command(OUTPUT ${generated}/${stem}.pb.cc ${generated}/${stem}.pb.h
      COMMAND protobuf::protoc --proto_path=${PROJECT_SOURCE_DIR} --cpp_out=${generated} ${path}
      DEPENDS ${path} VERBATIM COMMENT "Generating ${stem}.pb.h")
    list(APPEND sources ${generated}/${stem}.pb.cc)
    target_sources(${target} PRIVATE ${generated}/${stem}.pb.h)
  endforeach()
  if(NOT TARGET ${target}_proto)
    # Many in one: each alone would parse Protobuf's headers again, which is most of what it costs.
    add_library(${target}_proto OBJECT)
    target_compile_features(${target}_proto PRIVATE cxx_std_20)
    # What sanitizers would look for in it is Protobuf's.
    target_compile_options(${target}_proto PRIVATE -w ${TRACECAST_SMALL_OPTIONS} -fno-sanitize=all)
    target_include_directories(${target}_proto SYSTEM PRIVATE ${generated})
    target_link_libraries(${target}_proto PRIVATE protobuf::libprotobuf)
    set_target_properties(${target}_proto PROPERTIES POSITION_INDEPENDENT_CODE ON UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16
      UNITY_BUILD_UNIQUE_ID PROTO_FILE UNITY_BUILD_CODE_BEFORE_INCLUDE
"#undef PROTO_JOIN
#undef PROTO_NAME
#define PROTO_JOIN(name, file) name##file
#define PROTO_NAME(name, file) PROTO_JOIN(name, file)
#define schemas PROTO_NAME(schemas_, PROTO_FILE)
#define file_default_instances PROTO_NAME(instances_, PROTO_FILE)")
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_proto>)
  endif()
  target_sources(${target}_proto PRIVATE ${sources})
endfunction()

# tracecast_small_sources(<target> <source>...): these sources of the target, which are of the current folder, are what runs
# once. In a release they are compiled as the rest all the same: what -Os costs a prediction was not measured.
function(tracecast_small_sources target)
  get_target_property(small ${target} SOURCES)
  set(others ${small})
  list(REMOVE_ITEM others ${ARGN})
  list(REMOVE_ITEM small ${others})
  set_target_properties(${target} PROPERTIES SOURCES "${others}")
  get_target_property(libs ${target} LINK_LIBRARIES)
  add_library(${target}_small OBJECT ${small})
  set_target_properties(${target}_small PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_features(${target}_small PRIVATE cxx_std_20)
  target_compile_options(${target}_small PRIVATE ${TRACECAST_COMPILE_OPTIONS})
  target_include_directories(${target}_small PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(${target}_small SYSTEM PRIVATE $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
  target_link_libraries(${target}_small PRIVATE ${libs})
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    tracecast_optimize(${target}_small)
  else()
    tracecast_optimize(${target}_small small)
  endif()
  tracecast_unity(${target}_small)
  if(TARGET ${target}_proto)
    add_dependencies(${target}_small ${target}_proto)
  endif()
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_small>)
endfunction()

# tracecast_program(<target>): links the C++ runtime into an executable that people copy to other machines, so
# that it needs the C library alone.
function(tracecast_program target)
  target_compile_options(${target} PRIVATE ${TRACECAST_COMPILE_OPTIONS})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endfunction()

# tracecast_test(<name> [PROGRAM] SOURCES ... DEPS <box>... [LIBS <target>...] [LABELS ...] [COST <seconds>])
# One doctest program; every test case becomes one ctest test. A case that prints "[skipped]" counts as skipped.
# PROGRAM: it runs tracecast, at the path TRACECAST_PROGRAM; the others are built by the target `library_tests`.
# COST: about what its longest case takes. Such begin first, lest one runs alone at the end.
# Without TRACECAST_BUILD_UNIT_TESTS a program without a label is a target that nobody builds and no test of ctest's.
function(tracecast_test name)
  if(NOT TRACECAST_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "PROGRAM" "" "SOURCES;DEPS;LIBS;LABELS;COST" ${ARGN})
  set(target ${name}_test)
  add_executable(${target} ${ARG_SOURCES})
  target_compile_options(${target} PRIVATE ${TRACECAST_COMPILE_OPTIONS} ${TRACECAST_TEST_OPTIONS})
  target_precompile_headers(${target} REUSE_FROM tracecast_test_precompiled)
  tracecast_unity(${target})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE tracecast_test_main ${ARG_LIBS})
  target_link_options(${target} PRIVATE ${TRACECAST_TEST_LINKER})
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${target} PRIVATE tracecast::${dep})
  endforeach()
  if(ARG_PROGRAM)
    target_compile_definitions(${target} PRIVATE TRACECAST_PROGRAM="$<TARGET_FILE:tracecast>")
    add_dependencies(${target} tracecast)
  endif()
  if(NOT TRACECAST_BUILD_UNIT_TESTS AND NOT ARG_LABELS)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  if(NOT ARG_PROGRAM)
    add_dependencies(library_tests ${target})
  endif()
  set(list ${CMAKE_CURRENT_BINARY_DIR}/${target}_list.cmake)
  add_custom_command(TARGET ${target} POST_BUILD BYPRODUCTS ${list}
    COMMAND ${CMAKE_COMMAND} -DEXECUTABLE=$<TARGET_FILE:${target}> -DNAME=${name} -DOUTPUT=${list}
            -DWORKING_DIRECTORY=${PROJECT_SOURCE_DIR} "-DLABELS=${ARG_LABELS}" "-DCOST=${ARG_COST}"
            -P ${PROJECT_SOURCE_DIR}/tools/cmake/discover_tests.cmake VERBATIM)
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake CONTENT
    "if(EXISTS \"${list}\")\n  include(\"${list}\")\nelse()\n  add_test(${target}_NOT_BUILT ${target}_NOT_BUILT)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake)
endfunction()

# tracecast_bench(<name> [OPTIMIZE fast] SOURCES ... DEPS <box>...): a plain program; its one-repeat smoke run is a ctest
# test. One that times templates of a box is compiled as that box is.
function(tracecast_bench name)
  if(NOT TRACECAST_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "OPTIMIZE" "SOURCES;DEPS;LIBS" ${ARGN})
  set(target ${name}_bench)
  add_executable(${target} ${ARG_SOURCES})
  target_compile_options(${target} PRIVATE ${TRACECAST_COMPILE_OPTIONS})
  if(ARG_OPTIMIZE)
    tracecast_optimize(${target} ${ARG_OPTIMIZE})
  endif()
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE ${ARG_LIBS})
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${target} PRIVATE tracecast::${dep})
  endforeach()
  add_test(NAME "bench: ${name} (smoke)" COMMAND ${target} --smoke WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties("bench: ${name} (smoke)" PROPERTIES LABELS bench TIMEOUT 300)
endfunction()

# tracecast_embed(<target> <symbol> FILES ... [MESSAGE <type> PROTO <file>]): the files' bytes as string constants in the
# binary, with MESSAGE also encoded as this message of the .proto file. The generated source defines
# `std::span<const EmbeddedFile> <symbol>()` of sim/base/embedded.hpp.
function(tracecast_embed target symbol)
  cmake_parse_arguments(ARG "" "MESSAGE;PROTO" "FILES" ${ARGN})
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.cpp)
  set(encode)
  if(ARG_MESSAGE)
    set(ARG_PROTO ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_PROTO})
    set(encode -DMESSAGE=${ARG_MESSAGE} -DPROTO=${ARG_PROTO} -DPROTOC=$<TARGET_FILE:protobuf::protoc>)
  endif()
  set(paths)
  foreach(file IN LISTS ARG_FILES)
    list(APPEND paths ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  endforeach()
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DSYMBOL=${symbol} -DOUTPUT=${output} -DROOT=${PROJECT_SOURCE_DIR}
            "-DFILES=${paths}" ${encode} -P ${PROJECT_SOURCE_DIR}/tools/cmake/embed.cmake
    DEPENDS ${paths} ${ARG_PROTO} ${PROJECT_SOURCE_DIR}/tools/cmake/embed.cmake VERBATIM
    COMMENT "Embedding ${symbol}")
  set_source_files_properties(${output} PROPERTIES UNITY_GROUP embedded)
  target_sources(${target} PRIVATE ${output})
endfunction()
