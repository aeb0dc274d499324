# Language, warnings and sanitizers for every target of the project.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON) # POSIX and GNU functions of glibc
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# ccache, where it is installed and no other launcher is named.
find_program(CCACHE_PROGRAM ccache)
mark_as_advanced(CCACHE_PROGRAM)
foreach(language C CXX CUDA)
  if(CCACHE_PROGRAM AND NOT CMAKE_${language}_COMPILER_LAUNCHER)
    set(CMAKE_${language}_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  endif()
endforeach()

add_library(ampscale_flags INTERFACE)
target_include_directories(ampscale_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
target_compile_definitions(ampscale_flags INTERFACE _GNU_SOURCE)
target_compile_options(ampscale_flags INTERFACE
  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla
  -Wno-missing-field-initializers # an initializer may leave members out, which are then zero
  -fno-math-errno $<$<BOOL:${AMPSCALE_WERROR}>:-Werror>)
if(AMPSCALE_SANITIZE)
  target_compile_options(ampscale_flags INTERFACE
    -fsanitize=${AMPSCALE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(ampscale_flags INTERFACE -fsanitize=${AMPSCALE_SANITIZE})
endif()

# One component: the static library ampscale_<component>. SOURCES are its files; LINK lists the
# components and libraries that it links.
#   ampscale_component(input SOURCES loader.c jpeg.c LINK ampscale_base JPEG::JPEG)
function(ampscale_component component)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(ampscale_${component} STATIC ${ARG_SOURCES})
  target_link_libraries(ampscale_${component} PUBLIC ampscale_flags ${ARG_LINK})
endfunction()
