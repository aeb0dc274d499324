# cpack runs this before it packs the staged files. Adds libraries to the .tar.gz. In the .deb,
# moves zsh's completion to the folder in which Debian's zsh looks for completions of packages.
set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY})
if(CPACK_GENERATOR STREQUAL DEB)
  set(share ${root}${CPACK_PACKAGING_INSTALL_PREFIX}/share)
  file(RENAME ${share}/zsh/site-functions ${share}/zsh/vendor-completions)
  return()
endif()

# Packs the program's libraries, except the C library and NVIDIA's libraries. The C library must fit
# the machine's kernel and loader. The CUDA module finds the libraries of NVIDIA's driver and
# toolkit where they are installed.
set(folder ${root}/${CPACK_AMPSCALE_LIBRARY_FOLDER})
file(GLOB modules ${folder}/*.so)
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${root}/bin/ampscale MODULES ${modules}
  RESOLVED_DEPENDENCIES_VAR libraries UNRESOLVED_DEPENDENCIES_VAR missing
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|resolv|util|mvec|nsl)\\.so"
                      "^lib(cuda|cudart|cudnn|cublas|nccl|nvidia|nvrtc|nvJitLink)")
if(missing)
  message(FATAL_ERROR "libraries of the program were not found: ${missing}")
endif()
file(MAKE_DIRECTORY ${root}/share/doc/ampscale/libraries)
foreach(library ${libraries})
  file(REAL_PATH ${library} file)
  get_filename_component(name ${library} NAME)
  configure_file(${file} ${folder}/${name} COPYONLY)
  execute_process(COMMAND strip --strip-unneeded ${folder}/${name})
  # The search path in Open MPI's libraries is the folder in which they were installed. It is
  # replaced by their folder in the package.
  unset(runpath)
  file(READ_ELF ${folder}/${name} RUNPATH runpath)
  if(runpath)
    file(RPATH_CHANGE FILE ${folder}/${name} OLD_RPATH "${runpath}" NEW_RPATH "\$ORIGIN")
  endif()
  # If a package of Debian has installed the library, its licence is packed too.
  string(REGEX REPLACE "^.*/([^/]+/[^/]+)$" "*/\\1" installed ${file})
  execute_process(COMMAND dpkg-query -S ${installed} OUTPUT_VARIABLE owner ERROR_QUIET)
  string(REGEX REPLACE "[:,].*" "" owner "${owner}")
  if(owner AND EXISTS /usr/share/doc/${owner}/copyright)
    file(REAL_PATH /usr/share/doc/${owner}/copyright licence)
    configure_file(${licence} ${root}/share/doc/ampscale/libraries/${owner} COPYONLY)
  endif()
endforeach()
