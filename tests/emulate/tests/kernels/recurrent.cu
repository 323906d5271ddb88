#include <cuda_runtime.h>
typedef unsigned int uint32;
typedef unsigned char uint8;

struct info_st {
    uint32 static_meta[8];
};

extern "C" __global__ void __launch_bounds__(64) recurrent (
    const float* __restrict__ buffer_0, const float* __restrict__ buffer_1, float* buffer_2, const __grid_constant__ info_st info
) {
extern __shared__ __align__(4) uint8 dynamic_shared_mem[];
float *shared_memory_0 = reinterpret_cast<float*>(&dynamic_shared_mem[0]);
const uint32 l_0 = blockIdx.x * uint32(64) + threadIdx.x;
shared_memory_0[threadIdx.x] = buffer_0[l_0];
__syncthreads();
for (uint32 l_1 = uint32(0); l_1 < uint32(3); ++l_1) {
float l_mut_2;
l_mut_2 = float(0.0);
for (uint32 l_3 = uint32(0); l_3 < uint32(64); ++l_3) {
const float l_4 = shared_memory_0[l_3];
l_mut_2 = fma(l_4, buffer_1[l_3 * uint32(64) + threadIdx.x], l_mut_2);
}
__syncthreads();
shared_memory_0[threadIdx.x] = tanh(l_mut_2);
__syncthreads();
}
buffer_2[l_0] = shared_memory_0[uint32(63) - threadIdx.x];
}
