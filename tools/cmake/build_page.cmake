# Makes OUTPUT, the report page, from the folder SOURCE, in FOLDER: packages of the lock file, then esbuild. Packages that
# are there already are kept. What cannot be made is an empty file, or with MODE=ON an error.
function(give_up reason)
  if(MODE STREQUAL ON)
    message(FATAL_ERROR "the report page cannot be made: ${reason}")
  endif()
  message("-- no report page in this build: ${reason}")
  file(WRITE ${OUTPUT} "")

endfunction()

file(MAKE_DIRECTORY ${FOLDER})
if(MODE STREQUAL OFF)
  file(WRITE ${OUTPUT} "")
  return()
endif()

file(COPY ${SOURCE}/package.json ${SOURCE}/package-lock.json ${SOURCE}/build.mjs ${SOURCE}/tsconfig.json ${SOURCE}/src
     DESTINATION ${FOLDER})
file(SHA256 ${SOURCE}/package-lock.json lock)
set(stamp ${FOLDER}/node_modules/.installed)
set(installed "")
if(EXISTS ${stamp})
  file(READ ${stamp} installed)
endif()
if(NOT installed STREQUAL "${lock} ${WITH_TESTS}")
  set(options ci --ignore-scripts --no-audit --no-fund --prefer-offline --loglevel=error)
  if(NOT WITH_TESTS)
    list(APPEND options --omit=dev)
  endif()
  execute_process(COMMAND ${NPM} ${options} WORKING_DIRECTORY ${FOLDER} RESULT_VARIABLE failed
                  OUTPUT_VARIABLE said ERROR_VARIABLE said TIMEOUT 300)
  if(failed)
    string(REGEX REPLACE "\n.*" "" said "${said}")
    give_up("npm ci failed (${said})")
    return()
  endif()
  file(WRITE ${stamp} "${lock} ${WITH_TESTS}")
endif()
execute_process(COMMAND ${NODE} build.mjs ${OUTPUT} WORKING_DIRECTORY ${FOLDER} RESULT_VARIABLE failed
                ERROR_VARIABLE said)
if(failed)
  message(FATAL_ERROR "esbuild cannot bundle the report page:\n${said}")
endif()
