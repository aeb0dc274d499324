# Packages of the files that `cmake --install` installs. `cpack --config BUILD/CPackConfig.cmake`
# makes a .deb, which depends on Debian's libraries, and a .tar.gz, which contains its libraries and
# runs from any folder. The target `uninstall` removes the installed files.

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_VENDOR ampscale)
set(CPACK_PACKAGE_CONTACT "The authors of ampscale")
set(CPACK_PACKAGE_FILE_NAME ampscale-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/PackageFiles.cmake)
set(CPACK_AMPSCALE_LIBRARY_FOLDER ${CMAKE_INSTALL_LIBDIR}/ampscale)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "gnuplot-nox, fonts-dejavu-core, openssh-client")
if(MPI_C_LIBRARIES MATCHES mpich)
  string(APPEND CPACK_DEBIAN_PACKAGE_RECOMMENDS ", mpich")
elseif(MPI_C_FOUND)
  string(APPEND CPACK_DEBIAN_PACKAGE_RECOMMENDS ", openmpi-bin")
endif()
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "ampscale trains ImageNet-style networks in mixed precision on one device or many, measures the
training, judges hardware and draws figures. It is one program without Python.")
include(CPack)

# Writes the list of installed files for `uninstall`. CMake's own list, the manifest, is overwritten
# by cpack.
install(CODE "if(NOT CMAKE_INSTALL_PREFIX MATCHES _CPack_Packages)
  list(JOIN CMAKE_INSTALL_MANIFEST_FILES \"\\n\" installed)
  file(WRITE \"${CMAKE_BINARY_DIR}/installed.txt\" \"\${installed}\\n\")
endif()")
add_custom_target(uninstall
  COMMAND ${CMAKE_COMMAND} -DMANIFEST=${CMAKE_BINARY_DIR}/installed.txt
          -P ${CMAKE_SOURCE_DIR}/cmake/Uninstall.cmake VERBATIM)
