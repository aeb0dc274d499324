# CUDA and cuDNN, both optional. AMPSCALE_CUDNN says whether plans of cuDNN can be built here, and
# AMPSCALE_CUDNN_REASON why not. Building them needs neither a GPU nor a driver.
set(AMPSCALE_CUDNN OFF)
set(cudnn_oldest 9.0)
set(AMPSCALE_CUDNN_PLANS OFF) # whether tests can plan for GPUs that this machine does not have
set(cudnn_oldest_plans 9.11)  # earlier versions of cuDNN crash when they plan for some missing GPUs
find_package(CUDAToolkit 12 QUIET)
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES ../lib)
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)

if(NOT CUDAToolkit_FOUND)
  set(AMPSCALE_CUDNN_REASON "the CUDA toolkit (12 or later) was not found")
elseif(NOT CUDNN_INCLUDE_DIR OR NOT CUDNN_LIBRARY)
  set(AMPSCALE_CUDNN_REASON "cuDNN's headers or library were not found")
else()
  set(cudnn_version "an older one")
  if(EXISTS ${CUDNN_INCLUDE_DIR}/cudnn_version.h)
    file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_version.h numbers
         REGEX "^#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) [0-9]+")
    string(REGEX MATCHALL "[0-9]+" numbers "${numbers}")
    list(JOIN numbers "." cudnn_version)
  endif()
  if(NOT cudnn_version VERSION_GREATER_EQUAL ${cudnn_oldest})
    set(AMPSCALE_CUDNN_REASON
        "cuDNN ${cudnn_oldest} or later is needed, and ${CUDNN_INCLUDE_DIR} has ${cudnn_version}")
  else()
    set(AMPSCALE_CUDNN ON)
    if(cudnn_version VERSION_GREATER_EQUAL ${cudnn_oldest_plans})
      set(AMPSCALE_CUDNN_PLANS ON)
    endif()
    add_library(ampscale_cudnn INTERFACE)
    target_include_directories(ampscale_cudnn SYSTEM INTERFACE
                               ${CUDNN_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
    target_link_libraries(ampscale_cudnn INTERFACE ${CUDNN_LIBRARY})
  endif()
endif()
if(NOT AMPSCALE_CUDNN)
  message(STATUS "No plans of cuDNN are built: ${AMPSCALE_CUDNN_REASON}")
endif()

# The CUDA backend as a module. AMPSCALE_CUDA_MODULE says whether it can be built here, and
# AMPSCALE_CUDA_MODULE_REASON why not. Building it needs neither a GPU nor a driver.
set(AMPSCALE_CUDA_MODULE OFF)
set(AMPSCALE_CUDA_MODULE_REASON ${AMPSCALE_CUDNN_REASON})
if(AMPSCALE_CUDNN)
  include(CheckLanguage)
  # Machine code for each GPU generation with tensor cores that this nvcc knows (CUDA 13 has none
  # for Volta), and intermediate code of the newest one for later GPUs; CMAKE_CUDA_ARCHITECTURES
  # names others. Sanitizers check only host code, so their builds have just the intermediate code of
  # the oldest generation, which compiles much faster.
  execute_process(COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} --list-gpu-code OUTPUT_VARIABLE known
                  ERROR_QUIET)
  set(generations "")
  foreach(arch 70 75 80 86 89 90 100)
    if(known MATCHES "sm_${arch}[ \r\n]")
      list(APPEND generations ${arch})
    endif()
  endforeach()
  if(generations)
    list(GET generations 0 AMPSCALE_CUDA_OLDEST) # 70: compute capability 7.0
  endif()
  if(generations AND AMPSCALE_SANITIZE)
    set(CMAKE_CUDA_ARCHITECTURES ${AMPSCALE_CUDA_OLDEST}-virtual)
  elseif(generations AND NOT CMAKE_CUDA_ARCHITECTURES)
    list(GET generations -1 newest)
    list(TRANSFORM generations APPEND -real OUTPUT_VARIABLE CMAKE_CUDA_ARCHITECTURES)
    list(APPEND CMAKE_CUDA_ARCHITECTURES ${newest}-virtual)
  endif()
  # check_language() tests whether the compiler works. It does not test a compiler given in
  # CMAKE_CUDA_COMPILER: if that one does not work, the configuration fails.
  if(NOT CMAKE_CUDA_COMPILER)
    # forget an earlier failure, because the cause may have been removed
    unset(CMAKE_CUDA_COMPILER CACHE)
    # the nvcc of the toolkit whose libraries are linked
    set(ENV{CUDACXX} ${CUDAToolkit_NVCC_EXECUTABLE})
    check_language(CUDA)
  endif()
  if(NOT CMAKE_CUDA_COMPILER)
    set(AMPSCALE_CUDA_MODULE_REASON
        "nvcc does not work; if this compiler is too new for it, name an older one in CUDAHOSTCXX")
  elseif(NOT TARGET CUDA::cublasLt OR NOT TARGET CUDA::cudart_static)
    set(AMPSCALE_CUDA_MODULE_REASON "cuBLASLt or the static CUDA runtime was not found")
  else()
    enable_language(CUDA)
    set(AMPSCALE_CUDA_MODULE ON)
  endif()
endif()
if(AMPSCALE_CUDA_MODULE)
  message(STATUS "A CUDA module is built: CUDA ${CUDAToolkit_VERSION}, cuDNN ${cudnn_version}, "
                 "${CMAKE_CUDA_ARCHITECTURES}")
else()
  message(STATUS "No CUDA module is built: ${AMPSCALE_CUDA_MODULE_REASON}")
endif()

# Sources of the backend. The module links them with CUDA's libraries, and a test
# (tests/kernels/cuda/fake) links them with fake ones.
set(AMPSCALE_CUDA_SOURCES "")
foreach(name backend conv_problem described device matmul memory op_bn op_bn_fused op_bn_pool op_conv
        op_conv_fused
        op_elements op_linear op_loss op_pool op_reorder op_seconds op_sgd op_timer plan
        plan_cache plan_file stream traffic)
  list(APPEND AMPSCALE_CUDA_SOURCES ${CMAKE_SOURCE_DIR}/kernels/cuda/${name}.c)
endforeach()
list(APPEND AMPSCALE_CUDA_SOURCES ${CMAKE_SOURCE_DIR}/engine/nvjpeg/decoder.c)
set(AMPSCALE_CUDNN_SOURCES "") # the sources among these that plan and execute convolutions
foreach(name conv_check conv_exec conv_form conv_operands conv_plan conv_product cudnn_desc cudnn_device
        cudnn_graph cudnn_plans)
  list(APPEND AMPSCALE_CUDNN_SOURCES ${CMAKE_SOURCE_DIR}/kernels/cuda/${name}.c)
endforeach()
file(GLOB AMPSCALE_CUDA_KERNELS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/kernels/*.cu)
