# Run by cpack before it packs the staged files: puts libraries into the .tar.gz, and zsh's completion
# where Debian's zsh looks for those of packages into the .deb.
set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY})
if(CPACK_GENERATOR STREQUAL DEB)
  set(share ${root}${CPACK_PACKAGING_INSTALL_PREFIX}/share)
  file(RENAME ${share}/zsh/site-functions ${share}/zsh/vendor-completions)
  return()
endif()

# The program's libraries, except the C library, which fits the machine's kernel and loader, and those
# of NVIDIA's driver and toolkit, which the CUDA module finds where they are installed.
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
  # Open MPI's libraries look for each other in the folder of their own installation.
  unset(runpath)
  file(READ_ELF ${folder}/${name} RUNPATH runpath)
  if(runpath)
    file(RPATH_CHANGE FILE ${folder}/${name} OLD_RPATH "${runpath}" NEW_RPATH "\$ORIGIN")
  endif()
  # The licence of a library that a package of Debian's has installed is packed too.
  string(REGEX REPLACE "^.*/([^/]+/[^/]+)$" "*/\\1" installed ${file})
  execute_process(COMMAND dpkg-query -S ${installed} OUTPUT_VARIABLE owner ERROR_QUIET)
  string(REGEX REPLACE "[:,].*" "" owner "${owner}")
  if(owner AND EXISTS /usr/share/doc/${owner}/copyright)
    file(REAL_PATH /usr/share/doc/${owner}/copyright licence)
    configure_file(${licence} ${root}/share/doc/ampscale/libraries/${owner} COPYONLY)
  endif()
endforeach()
