# Modules that the program loads at run time: their folder, the version of the interface, and the
# libraries of a program that loads modules.

# The path from the folder of installed programs to the folder of installed modules.
file(RELATIVE_PATH AMPSCALE_MODULE_DIR ${CMAKE_INSTALL_FULL_BINDIR}
     ${CMAKE_INSTALL_FULL_LIBDIR}/ampscale)

# A module must have been built with the same structures as the program. Both contain a hash of the
# headers that declare these structures.
set(shared_headers base/status.h kernels/tensor.h kernels/scaler.h kernels/ops.h kernels/traffic.h
    kernels/gpu_description.h kernels/backend.h
    comm/comm.h comm/nccl_port.h comm/gloo_port.h input/resize.h input/device_decoder.h)
set(sum "")
foreach(header ${shared_headers})
  file(SHA256 ${CMAKE_SOURCE_DIR}/${header} one)
  string(APPEND sum ${one})
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY
               CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${header})
endforeach()
string(SHA256 sum "${sum}")
string(SUBSTRING ${sum} 0 8 AMPSCALE_MODULE_ABI)

# A module uses functions of base and of the core of kernels from the program, so that both share
# the message of the last failure. The program therefore links and exports all of these functions.
add_library(ampscale_module_host INTERFACE)
target_link_options(ampscale_module_host INTERFACE -rdynamic
  LINKER:--whole-archive $<TARGET_FILE:ampscale_base> $<TARGET_FILE:ampscale_kernels_core>
  LINKER:--no-whole-archive)
add_dependencies(ampscale_module_host ampscale_base ampscale_kernels_core)

# A module `target` of the CUDA backend. It is compiled like all other C code. Its file name
# does not begin with "lib". It exports only the functions that the program looks up.
function(ampscale_cuda_module target)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  foreach(property COMPILE_DEFINITIONS COMPILE_OPTIONS)
    get_target_property(values ampscale_flags INTERFACE_${property})
    foreach(value ${values})
      set_property(TARGET ${target} APPEND PROPERTY ${property}
                   $<$<COMPILE_LANGUAGE:C>:${value}>)
    endforeach()
  endforeach()
  if(AMPSCALE_SANITIZE)
    target_link_options(${target} PRIVATE -fsanitize=${AMPSCALE_SANITIZE})
  endif()
  set_target_properties(${target} PROPERTIES PREFIX "" SUFFIX ".so")
  set(exports ${CMAKE_SOURCE_DIR}/kernels/cuda/module.map)
  target_link_options(${target} PRIVATE LINKER:--version-script=${exports})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${exports})
endfunction()
