#include <cuda_runtime.h>
typedef unsigned int uint;
typedef unsigned int uint32;
typedef unsigned char uint8;

extern "C" __global__ void __launch_bounds__(40) warps (
    const float* __restrict__ buffer_0, float* buffer_1
) {
extern __shared__ __align__(4) uint8 dynamic_shared_mem[];
float *shared_memory_0 = reinterpret_cast<float*>(&dynamic_shared_mem[0]);
uint32 warpSizeChecked = min(warpSize, blockDim.x * blockDim.y * blockDim.z);
const float l_1 = buffer_0[threadIdx.x];
auto plane_l_2 = [&]() -> float {
    float acc = l_1;
    for (uint offset = 1; offset < warpSizeChecked; offset *=2 ) {
acc += __shfl_xor_sync(-1, acc, offset);
    };
    return acc;
};
const float l_2 = plane_l_2();
const float l_3 = __shfl_down_sync(-1, l_1, 1);
const uint32 l_4 = __ballot_sync(-1, l_1 > float(2.5));
shared_memory_0[threadIdx.x] = l_1;
__syncwarp();
const float l_5 = shared_memory_0[threadIdx.x ^ uint32(1)];
buffer_1[threadIdx.x * uint32(4)] = l_2;
buffer_1[threadIdx.x * uint32(4) + uint32(1)] = l_3;
buffer_1[threadIdx.x * uint32(4) + uint32(2)] = float(__popc(l_4));
buffer_1[threadIdx.x * uint32(4) + uint32(3)] = l_5;
}
