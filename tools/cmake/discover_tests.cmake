# Writes OUTPUT: one ctest test "NAME: case" for every case that the doctest program EXECUTABLE lists.
# Instead of doctest's own script, which breaks every test of the folder on a name with "[" or ";" in it.
execute_process(COMMAND ${EXECUTABLE} --list-test-cases --no-version --no-colors
  OUTPUT_VARIABLE listing RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${EXECUTABLE} cannot list its test cases (${result}):\n${listing}")
endif()
if(NOT COST)
  set(COST 0)
endif()
set(tests "")
while(listing MATCHES "^([^\n]*)\n(.*)$")
  set(name "${CMAKE_MATCH_1}")
  set(listing "${CMAKE_MATCH_2}")
  if(name STREQUAL "" OR name MATCHES "^(===|\\[doctest\\])")
    continue()
  endif()
  string(REPLACE "," "\\," pattern "${name}")  # a comma would separate two patterns
  string(APPEND tests
    "add_test([==[${NAME}: ${name}]==] \"${EXECUTABLE}\" [==[--test-case=${pattern}]==])\n"
    "set_tests_properties([==[${NAME}: ${name}]==] PROPERTIES WORKING_DIRECTORY \"${WORKING_DIRECTORY}\"\n"
    "  SKIP_REGULAR_EXPRESSION [==[\\[skipped\\]]==] FAIL_REGULAR_EXPRESSION [==[test cases: +0 ]==]\n"
    "  LABELS \"${LABELS}\" TIMEOUT 300 COST ${COST})\n")
endwhile()
file(WRITE ${OUTPUT} "${tests}")
