# Writes ${OUT}, a header that names the commit of the source tree ${SOURCE}: "" outside git. Run at
# every build; the file is touched only when the commit has changed.
execute_process(COMMAND git --no-optional-locks -C ${SOURCE} describe --always --dirty --abbrev=40
                        --exclude=*
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
set(text "/* Written by the build. */\n#define AMPSCALE_COMMIT \"${commit}\"\n")
if(EXISTS ${OUT})
  file(READ ${OUT} old)
endif()
if(NOT "${old}" STREQUAL "${text}")
  file(WRITE ${OUT} "${text}")
endif()
