#include <cuda_runtime.h>
typedef unsigned int uint32;
typedef unsigned char uint8;

extern "C" __global__ void divergent (float* buffer_0) {
if (threadIdx.x < uint32(16)) {
__syncthreads();
}
buffer_0[threadIdx.x] = float(1.0);
}

extern "C" __global__ void branches (float* buffer_0) {
if (threadIdx.x < uint32(16)) {
__syncthreads();
buffer_0[threadIdx.x] = float(1.0);
} else {
__syncthreads();
buffer_0[threadIdx.x] = float(2.0);
}
}

extern "C" __global__ void beyond (float* buffer_0) {
buffer_0[threadIdx.x + uint32(1)] = float(1.0);
}

extern "C" __global__ void beyond_shared (float* buffer_0) {
extern __shared__ __align__(4) uint8 dynamic_shared_mem[];
float *shared_memory_0 = reinterpret_cast<float*>(&dynamic_shared_mem[0]);
shared_memory_0[threadIdx.x + uint32(1)] = float(1.0);
__syncthreads();
buffer_0[threadIdx.x] = shared_memory_0[threadIdx.x];
}

extern "C" __global__ void unwritten (float* buffer_0) {
extern __shared__ __align__(4) uint8 dynamic_shared_mem[];
float *shared_memory_0 = reinterpret_cast<float*>(&dynamic_shared_mem[0]);
if (threadIdx.x > uint32(0)) {
shared_memory_0[threadIdx.x] = float(1.0);
}
__syncthreads();
buffer_0[threadIdx.x] = shared_memory_0[threadIdx.x ^ uint32(1)];
}

extern "C" __global__ void cubes (float* buffer_0) {
buffer_0[0] = buffer_0[0] + float(1.0);
}

extern "C" __global__ void atomic (float* buffer_0) {
float& l_0 = buffer_0[0];
float l_1 = atomicAdd(&l_0, float(1.0));
}

extern "C" __global__ void workspace (float* buffer_0) {
buffer_0[threadIdx.x] = float(threadIdx.x);
buffer_0[threadIdx.x] = buffer_0[threadIdx.x ^ uint32(1)];
}
