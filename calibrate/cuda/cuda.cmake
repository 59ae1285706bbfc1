# Included by calibrate: measuring on real GPUs. Host code only; CUDA's headers are needed to build it, none of its libraries,
# which are opened at run time. AUTO builds it where the headers are; ON and missing is an error.
set(TRACECAST_WITH_CUDA AUTO CACHE STRING "Measure on NVIDIA GPUs: AUTO, ON or OFF")
set_property(CACHE TRACECAST_WITH_CUDA PROPERTY STRINGS AUTO ON OFF)

set(cuda_folders)
set(cuda_missing)
if(NOT TRACECAST_WITH_CUDA STREQUAL OFF)
  foreach(header cuda.h cublas_api.h cudnn.h cupti.h nvrtc.h nccl.h)
    find_path(TRACECAST_FOLDER_OF_${header} ${header}
      HINTS ${CUDAToolkit_ROOT} ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda
      PATH_SUFFIXES include extras/CUPTI/include)
    mark_as_advanced(TRACECAST_FOLDER_OF_${header})
    # The kernel's headers have a cuda.h too (an Apple device of 1990).
    if(NOT TRACECAST_FOLDER_OF_${header} OR TRACECAST_FOLDER_OF_${header} MATCHES "/linux$")
      list(APPEND cuda_missing ${header})
    else()
      list(APPEND cuda_folders ${TRACECAST_FOLDER_OF_${header}})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES cuda_folders)
  if(cuda_missing AND TRACECAST_WITH_CUDA STREQUAL ON)
    list(JOIN cuda_missing ", " cuda_missing)
    message(FATAL_ERROR "TRACECAST_WITH_CUDA=ON: no ${cuda_missing}; set CUDAToolkit_ROOT")
  endif()
endif()

if(cuda_folders AND NOT cuda_missing)
  set(TRACECAST_HAS_CUDA ON CACHE INTERNAL "")
  set(TRACECAST_CUDA_FOLDERS ${cuda_folders} CACHE INTERNAL "")
  target_sources(tracecast_calibrate PRIVATE
    cuda/blas.cpp cuda/compiler.cpp cuda/cuda_device.cpp cuda/dnn.cpp cuda/dnn_convolution.cpp cuda/dnn_recurrent.cpp
    cuda/driver.cpp cuda/kernel_recorder.cpp cuda/kernel_source.cpp cuda/own_operations.cpp cuda/sensors.cpp
    cuda/several_gpus.cpp)
  target_include_directories(tracecast_calibrate SYSTEM PRIVATE ${cuda_folders})
else()
  set(TRACECAST_HAS_CUDA OFF CACHE INTERNAL "")
  target_sources(tracecast_calibrate PRIVATE cuda/no_cuda.cpp)
endif()
# Opening libraries needs no header of CUDA's; recording profiles does it too.
target_sources(tracecast_calibrate PRIVATE cuda/library.cpp)
target_link_libraries(tracecast_calibrate PRIVATE ${CMAKE_DL_LIBS})
include(FeatureSummary)
add_feature_info(cuda TRACECAST_HAS_CUDA "measuring on NVIDIA GPUs (TRACECAST_WITH_CUDA=${TRACECAST_WITH_CUDA})")
