# Language, warnings and sanitizers for every target of the project.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON) # POSIX and GNU functions of glibc
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

add_library(ampscale_flags INTERFACE)
target_include_directories(ampscale_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
target_compile_definitions(ampscale_flags INTERFACE _GNU_SOURCE)
target_compile_options(ampscale_flags INTERFACE
  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla
  -Wno-missing-field-initializers # a member left out is zero, and often meant to be
  -fno-math-errno $<$<BOOL:${AMPSCALE_WERROR}>:-Werror>)
if(AMPSCALE_SANITIZE)
  target_compile_options(ampscale_flags INTERFACE
    -fsanitize=${AMPSCALE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(ampscale_flags INTERFACE -fsanitize=${AMPSCALE_SANITIZE})
endif()

# One room of the house: a static library ampscale_<room> of the given sources, which links the
# rooms below it.
#   ampscale_room(input SOURCES loader.c jpeg.c LINK ampscale_base JPEG::JPEG)
function(ampscale_room room)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(ampscale_${room} STATIC ${ARG_SOURCES})
  target_link_libraries(ampscale_${room} PUBLIC ampscale_flags ${ARG_LINK})
endfunction()
