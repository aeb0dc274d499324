# Libraries. If one is missing, the message names its package on Debian and Ubuntu.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS C)
find_package(PkgConfig REQUIRED)

find_package(dnnl CONFIG)
if(NOT dnnl_FOUND)
  message(FATAL_ERROR "oneDNN was not found: apt-get install libdnnl-dev (or set dnnl_DIR)")
endif()

find_package(JPEG)
if(NOT JPEG_FOUND)
  message(FATAL_ERROR "libjpeg-turbo was not found: apt-get install libjpeg-dev")
endif()

# If the header of libjpeg's internals is installed, the project's own code decodes entropy-coded
# data (input/jpeg_scan.h). Otherwise libjpeg decodes them. Debian and Ubuntu install the header.
include(CheckIncludeFiles)
set(CMAKE_REQUIRED_INCLUDES ${JPEG_INCLUDE_DIRS})
check_include_files("stdio.h;jpeglib.h;jpegint.h" JPEGINT_FOUND)
unset(CMAKE_REQUIRED_INCLUDES)
if(NOT JPEGINT_FOUND)
  message(STATUS "libjpeg's jpegint.h was not found, so that JPEG files are read more slowly")
endif()

find_package(PNG)
if(NOT PNG_FOUND)
  message(STATUS "libpng was not found, so that PNG files are not read: apt-get install libpng-dev")
endif()

pkg_check_modules(JANSSON IMPORTED_TARGET jansson)
if(NOT JANSSON_FOUND)
  message(FATAL_ERROR "jansson was not found: apt-get install libjansson-dev")
endif()

find_package(ZLIB)
if(NOT ZLIB_FOUND)
  message(FATAL_ERROR "zlib was not found: apt-get install zlib1g-dev")
endif()

pkg_check_modules(NETTLE IMPORTED_TARGET nettle)
if(NOT NETTLE_FOUND)
  message(FATAL_ERROR "Nettle was not found: apt-get install nettle-dev")
endif()

pkg_check_modules(PROTOBUF_C IMPORTED_TARGET libprotobuf-c)
find_program(PROTOC_C protoc-c)
mark_as_advanced(PROTOC_C)
if(NOT PROTOBUF_C_FOUND OR NOT PROTOC_C)
  message(FATAL_ERROR "protobuf-c was not found: apt-get install libprotobuf-c-dev "
                      "protobuf-c-compiler")
endif()

pkg_check_modules(ISAL IMPORTED_TARGET libisal)
if(NOT ISAL_FOUND)
  message(FATAL_ERROR "ISA-L was not found: apt-get install libisal-dev")
endif()

# Any MPI works. -DMPI_C_COMPILER=mpicc.mpich chooses an MPI other than the default.
find_package(MPI COMPONENTS C)
if(NOT MPI_C_FOUND)
  message(STATUS "MPI was not found, so that ranks connect over TCP or by Gloo: "
                 "apt-get install libopenmpi-dev openmpi-bin")
endif()

if(BUILD_TESTING OR NOT DEFINED BUILD_TESTING)
  pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka)
  if(NOT CMOCKA_FOUND)
    message(FATAL_ERROR "cmocka was not found: apt-get install libcmocka-dev, "
                        "or configure with -DBUILD_TESTING=OFF")
  endif()
endif()
