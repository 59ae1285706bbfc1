# tracecast_page(<target> <folder>): the report page that npm and esbuild make of the folder's sources, as the embedded set
# `report_page` of the target. Its packages are those of the lock file, installed beside the build. Where there is no npm, or
# it cannot install them, the set holds an empty file and `--report` says so; with TRACECAST_WITH_PAGE=ON that is an error.
find_program(TRACECAST_NODE node)
find_program(TRACECAST_NPM npm)
set(TRACECAST_PAGE_FOLDER ${PROJECT_BINARY_DIR}/page)

function(tracecast_page target folder)
  set(mode ${TRACECAST_WITH_PAGE})
  set(has_tools OFF)
  if(TRACECAST_NODE AND TRACECAST_NPM)
    set(has_tools ON)
  endif()
  if(mode STREQUAL ON AND NOT has_tools)
    message(FATAL_ERROR "TRACECAST_WITH_PAGE=ON, but there is no node and npm (tools/setup.sh installs them)")
  endif()
  if(mode STREQUAL AUTO AND NOT has_tools)
    set(mode OFF)
  endif()
  add_feature_info(report-page "NOT mode STREQUAL OFF" "the page of --report, bundled by esbuild")
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/src/*.ts ${folder}/src/*.css ${folder}/src/*.html)
  set(page ${TRACECAST_PAGE_FOLDER}/page.html)
  set(embedded ${CMAKE_CURRENT_BINARY_DIR}/report_page.cpp)
  set(scripts ${PROJECT_SOURCE_DIR}/tools/cmake)
  add_custom_command(OUTPUT ${page}
    COMMAND ${CMAKE_COMMAND} -DMODE=${mode} -DSOURCE=${folder} -DFOLDER=${TRACECAST_PAGE_FOLDER} -DOUTPUT=${page}
            -DNODE=${TRACECAST_NODE} -DNPM=${TRACECAST_NPM} -DWITH_TESTS=${TRACECAST_BUILD_TESTS}
            -P ${scripts}/build_page.cmake
    DEPENDS ${sources} ${folder}/package.json ${folder}/package-lock.json ${folder}/build.mjs ${folder}/tsconfig.json
            ${scripts}/build_page.cmake
    VERBATIM COMMENT "Bundling the report page")
  add_custom_command(OUTPUT ${embedded}
    COMMAND ${CMAKE_COMMAND} -DSYMBOL=report_page -DOUTPUT=${embedded} -DROOT=${PROJECT_BINARY_DIR} -DFILES=${page}
            -P ${scripts}/embed.cmake
    DEPENDS ${page} ${scripts}/embed.cmake VERBATIM COMMENT "Embedding report_page")
  # A library of its own, which waits for no other: while npm waits for packages, sources are compiled.
  add_library(${target}_page OBJECT ${embedded})
  target_compile_features(${target}_page PRIVATE cxx_std_20)
  target_include_directories(${target}_page PRIVATE ${PROJECT_SOURCE_DIR})
  set_target_properties(${target}_page PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_page>)
endfunction()
