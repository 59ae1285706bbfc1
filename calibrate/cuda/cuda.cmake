# Included by calibrate: measuring on real GPUs. Host code only; CUDA's headers are needed to build it, none of its libraries:
# they are opened at run time.
target_sources(tracecast_calibrate PRIVATE cuda/no_cuda.cpp)
