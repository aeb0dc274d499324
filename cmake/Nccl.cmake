# NCCL's header, optional. AMPSCALE_NCCL says whether the code that calls NCCL is built. The library
# itself is loaded at run time.
set(AMPSCALE_NCCL OFF)
if(CUDAToolkit_FOUND)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  mark_as_advanced(NCCL_INCLUDE_DIR)
  if(NCCL_INCLUDE_DIR)
    # NCCL 2.14 introduced communicators that are opened without blocking.
    file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h nccl_config REGEX "ncclCommInitRankConfig\\(")
    if(nccl_config)
      set(AMPSCALE_NCCL ON)
    endif()
  endif()
endif()
if(NOT AMPSCALE_NCCL)
  message(STATUS "Gradients of GPUs will pass through host memory: the CUDA toolkit or NCCL's "
                 "header (2.14 or later) was not found: apt-get install libnccl-dev")
endif()
