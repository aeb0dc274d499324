# CUDA and cuDNN, both optional: AMPSCALE_CUDNN says whether plans of cuDNN can be built here, and
# AMPSCALE_CUDNN_REASON why not. No GPU and no driver is needed for that.
set(AMPSCALE_CUDNN OFF)
find_package(CUDAToolkit 12 QUIET)
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES ../lib)
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)

if(NOT CUDAToolkit_FOUND)
  set(AMPSCALE_CUDNN_REASON "the CUDA toolkit (12 or later) was not found")
elseif(NOT CUDNN_INCLUDE_DIR OR NOT CUDNN_LIBRARY)
  set(AMPSCALE_CUDNN_REASON "cuDNN's headers or library were not found")
else()
  # What a plan for a GPU that is elsewhere needs; cuDNN has it since some release of version 9.
  set(has_device_text "")
  if(EXISTS ${CUDNN_INCLUDE_DIR}/cudnn_graph.h)
    file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_graph.h has_device_text
         REGEX "CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION")
  endif()
  if(has_device_text)
    set(AMPSCALE_CUDNN ON)
    add_library(ampscale_cudnn INTERFACE)
    target_include_directories(ampscale_cudnn SYSTEM INTERFACE
                               ${CUDNN_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
    target_link_libraries(ampscale_cudnn INTERFACE ${CUDNN_LIBRARY})
  else()
    set(AMPSCALE_CUDNN_REASON "this cuDNN is too old to plan for a GPU that is elsewhere")
  endif()
endif()
if(NOT AMPSCALE_CUDNN)
  message(STATUS "No plans of cuDNN are built: ${AMPSCALE_CUDNN_REASON}")
endif()
