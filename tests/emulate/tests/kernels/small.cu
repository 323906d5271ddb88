#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
typedef unsigned int uint32;
typedef unsigned char uint8;

extern "C" __global__ void tensor (const float* __restrict__ buffer_0, const float* __restrict__ buffer_1, float* buffer_2) {
extern __shared__ __align__(4) uint8 dynamic_shared_mem[];
__half *shared_memory_0 = reinterpret_cast<__half*>(&dynamic_shared_mem[0]);
for (uint32 l_0 = threadIdx.x; l_0 < uint32(256); l_0 += uint32(32)) {
shared_memory_0[l_0] = __half(buffer_0[l_0]);
shared_memory_0[l_0 + uint32(256)] = __half(buffer_1[l_0]);
}
__syncthreads();
nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __half, nvcuda::wmma::row_major> l_1;
nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, __half, nvcuda::wmma::col_major> l_2;
nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> l_3;
nvcuda::wmma::fill_fragment(l_3, float(0.5));
nvcuda::wmma::load_matrix_sync(l_1, shared_memory_0, uint32(16));
nvcuda::wmma::load_matrix_sync(l_2, shared_memory_0 + 256, uint32(16));
nvcuda::wmma::mma_sync(l_3, l_1, l_2, l_3);
nvcuda::wmma::store_matrix_sync(buffer_2, l_3, uint32(16), nvcuda::wmma::mem_row_major);
}
