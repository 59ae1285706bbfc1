# Writes OUTPUT: ctest tests "NAME: case", one for every case that the doctest program EXECUTABLE lists; with CASES, runs of at
# most that many cases in one process, "NAME: cases 1 to 20", which say by a line how each ended (tests/support/main.cpp).
# Instead of doctest's own script, which breaks every test of the folder on a name with "[" or ";" in it.
execute_process(COMMAND ${EXECUTABLE} --list-test-cases --no-version --no-colors
  OUTPUT_VARIABLE listing RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${EXECUTABLE} cannot list its test cases (${result}):\n${listing}")
endif()
if(NOT COST)
  set(COST 0)
endif()
set(properties "WORKING_DIRECTORY \"${WORKING_DIRECTORY}\" LABELS \"${LABELS}\" TIMEOUT 300 COST ${COST}")
set(tests "")
set(number 0)
while(listing MATCHES "^([^\n]*)\n(.*)$")
  set(name "${CMAKE_MATCH_1}")
  set(listing "${CMAKE_MATCH_2}")
  if(name STREQUAL "" OR name MATCHES "^(===|\\[doctest\\])")
    continue()
  endif()
  math(EXPR number "${number} + 1")
  if(NOT CASES)
    string(REPLACE "," "\\," pattern "${name}")  # a comma would separate two patterns
    string(APPEND tests
      "add_test([==[${NAME}: ${name}]==] \"${EXECUTABLE}\" [==[--test-case=${pattern}]==])\n"
      "set_tests_properties([==[${NAME}: ${name}]==] PROPERTIES ${properties}\n"
      "  SKIP_REGULAR_EXPRESSION [==[\\[skipped\\]]==] FAIL_REGULAR_EXPRESSION [==[test cases: +0 ]==])\n")
  endif()
endwhile()
if(CASES)
  math(EXPR runs "(${number} + ${CASES} - 1) / ${CASES}")
  set(last 0)
  foreach(run RANGE 1 ${runs})
    math(EXPR first "${last} + 1")
    math(EXPR last "${run} * ${number} / ${runs}")
    set(name "${NAME}: cases ${first} to ${last}")
    string(APPEND tests
      "add_test(\"${name}\" \"${EXECUTABLE}\" --first=${first} --last=${last} --reporters=console,cases)\n"
      "set_tests_properties(\"${name}\" PROPERTIES ${properties})\n")
  endforeach()
endif()
file(WRITE ${OUTPUT} "${tests}")
