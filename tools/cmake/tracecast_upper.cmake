# The planner and the commands of TRACECAST_UPPER_FROM, a finished build of the same sources, instead of compiling them:
# the program that looks at broken files under sanitizers is theirs, with all boxes below of this build.
set(upper ${TRACECAST_UPPER_FROM})
cmake_path(ABSOLUTE_PATH upper BASE_DIRECTORY ${PROJECT_SOURCE_DIR})

add_library(tracecast_plan STATIC IMPORTED GLOBAL)
set_target_properties(tracecast_plan PROPERTIES IMPORTED_LOCATION ${upper}/sim/plan/libtracecast_plan.a)
target_link_libraries(tracecast_plan INTERFACE tracecast::job tracecast::serve tracecast::store
  protobuf::libprotobuf tracecast::fmt tracecast::cbc)

add_library(tracecast_cli STATIC IMPORTED GLOBAL)
set_target_properties(tracecast_cli PROPERTIES IMPORTED_LOCATION ${upper}/tools/libtracecast_cli.a)
target_link_libraries(tracecast_cli INTERFACE tracecast_plan tracecast::calibrate tracecast::store tracecast::job
  tracecast::sharing tracecast::replay tracecast::traces tracecast::models tracecast::hwspecs tracecast::base
  protobuf::libprotobuf tracecast::fmt ZLIB::ZLIB)

add_executable(tracecast ${PROJECT_SOURCE_DIR}/tools/main.cpp)
target_include_directories(tracecast PRIVATE ${PROJECT_SOURCE_DIR})
tracecast_program(tracecast)
target_link_libraries(tracecast PRIVATE tracecast_cli)
