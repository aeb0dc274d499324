# Writes ${OUT}, a header that names the version and the commit of the source tree ${SOURCE}. Every
# build runs this script; it writes the file only if the version or the commit has changed.
#
# The file VERSION holds the number of the tree's release, such as 0.1.0. The version is
#
#   0.1.0                   in a tarball, and at the release's tag v0.1.0 if no file has changed
#   0.1.0+5.g1a2b3c4d5e6f   five commits after the tag
#   0.1.0-dev+g1a2b3c4d5e6f before the tag
#
# followed by ".dirty" if files differ from the commit.
function(ask out)
  execute_process(COMMAND git --no-optional-locks -C ${SOURCE} ${ARGN} OUTPUT_VARIABLE answer
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(${out} "${answer}" PARENT_SCOPE)
endfunction()

file(STRINGS ${SOURCE}/VERSION version LIMIT_COUNT 1)
set(commit "")
file(REAL_PATH ${SOURCE} source)
ask(top rev-parse --show-toplevel) # a tarball may lie in a repository of something else
if(top STREQUAL source)
  ask(commit describe --always --dirty --abbrev=40 --exclude=*)
  ask(tagged describe --tags --long --dirty=.dirty --abbrev=12 --match=v${version})
  ask(untagged describe --always --dirty=.dirty --abbrev=12 --exclude=*)
  if(tagged)
    string(REGEX REPLACE "^.*-([0-9]+)-(g[0-9a-f]+(\\.dirty)?)$" "+\\1.\\2" since "${tagged}")
    if(NOT since MATCHES "^\\+0\\.g[0-9a-f]+$")
      string(APPEND version "${since}")
    endif()
  elseif(untagged)
    string(APPEND version "-dev+g${untagged}")
  endif()
endif()

set(text "/* Written by the build. */\n#define BUILD_VERSION \"${version}\"\n#define BUILD_COMMIT \"${commit}\"\n")
if(EXISTS ${OUT})
  file(READ ${OUT} old)
endif()
if(NOT "${old}" STREQUAL "${text}")
  file(WRITE ${OUT} "${text}")
endif()
