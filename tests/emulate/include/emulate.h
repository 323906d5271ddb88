// CUDA on a processor: what a kernel's thread asks of the machine, and how a host launches kernels.
//
// Every thread of a cube is a fiber; cubes run one after the other on one thread of the host. A fiber runs until it waits
// at a barrier or for its warp, so everything between two barriers is deterministic, in an order that can be permuted.
//
// A host includes the kernels' text unchanged, each in a namespace of its own (kernels define types of the same name):
//
//     #include <emulate.h>
//     namespace kernel_0 { EMULATE_SHARED
//     #include "kernel_0.cu"
//     }
//     int main() {
//       auto *x = static_cast<float *>(emulate::allocate("x", 128 * sizeof(float)));
//       emulate::launch({"kernel_0", dim3(2), dim3(64), 512}, [&] { kernel_0::kernel_0(x, {}); });
//       return emulate::finish();
//     }
//
// Options are in the environment, as EMULATE=order=7,poison,cubes=2; emulate.cpp lists them. Compiled with
// -fsanitize=thread (and linked without), every access to memory is checked: accesses.cpp.
#pragma once
#include <cstddef>
#include <cstdint>

struct uint3 { unsigned x, y, z; };

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

// Shared memory has one address for all cubes. Kernels declare it in their own namespace, with the linkage of this one.
#define EMULATE_SHARED extern unsigned char dynamic_shared_mem[] __asm__("emulate_shared");

namespace emulate {

struct Launch {
  const char *kernel;
  dim3 grid, block;
  size_t shared;
};

// Global memory that ends at a page nobody may touch. It is filled with NaN.
void *allocate(const char *name, size_t bytes);

void run(const Launch &, void (*body)(void *), void *context);

template <class Body> void launch(const Launch &launch, Body body) {
  run(launch, [](void *context) { (*static_cast<Body *>(context))(); }, &body);
}

// The barrier of this number, unless the option `without` names it: what mutation tests replace __syncthreads by.
#define EMULATE_BARRIER(number) do { if (!emulate::left_out(number)) __syncthreads(); } while (0)
bool left_out(unsigned barrier);

// What was found, and the exit code: 0 for nothing, 3 otherwise.
int finish();

// Everyone of the warp that is in `mask` hands in a value and gets the one of `source`.
uint64_t exchange(unsigned mask, uint64_t value, int source, void *site);

// One bit for every lane of the mask, set where `value` is.
unsigned ballot(unsigned mask, bool value, void *site);

int lane();

// Said before an access that cannot be torn and that races with no other of its kind.
void atomically(const void *address, unsigned size, void *site);

// The smallest number that kernels store; 4 bytes unless a header with smaller ones says so.
int granule(int bytes);

}  // namespace emulate

// These wait, so that no compiler may move an access to memory over them.
void __syncthreads();
void __syncwarp(unsigned mask = ~0u);
