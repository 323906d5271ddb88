// The part of CUDA C++ that CubeCL's kernels are written in: qualifiers, vectors, functions.
#pragma once
#include <math.h>

#include <cstdio>
#include <cstring>
#include <type_traits>

#include "emulate.h"

#define __global__
#define __device__
#define __host__
#define __shared__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(n) __attribute__((aligned(n)))

using uchar = unsigned char;
using ushort = unsigned short;
using uint = unsigned int;

#define EMULATE_VECTORS(T, name)                                                                                       \
  struct alignas(2 * sizeof(T)) name##2 { T x, y; };                                                                   \
  struct alignas(4 * sizeof(T)) name##4 { T x, y, z, w; };
EMULATE_VECTORS(float, float)
EMULATE_VECTORS(double, double)
EMULATE_VECTORS(int, int)
EMULATE_VECTORS(unsigned, uint)
#undef EMULATE_VECTORS

inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }

// As in CUDA, either argument that is a number wins over one that is not; std::min depends on the order.
template <class A, class B> constexpr auto min(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) return fmin(T(a), T(b));
  else return T(b) < T(a) ? T(b) : T(a);
}
template <class A, class B> constexpr auto max(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) return fmax(T(a), T(b));
  else return T(a) < T(b) ? T(b) : T(a);
}

inline float rsqrt(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rhypotf(float x, float y) { return 1.0f / hypotf(x, y); }

// The quick functions of a GPU have their errors; here they are the exact ones.
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanhf(float x) { return tanhf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frsqrt_rn(float x) { return 1.0f / sqrtf(x); }

inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __mulhi(int a, int b) { return int((int64_t(a) * b) >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((uint64_t(a) * b) >> 32); }
inline long long __mul64hi(long long a, long long b) { return (long long)((__int128(a) * b) >> 64); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((static_cast<unsigned __int128>(a) * b) >> 64);
}
inline unsigned __brev(unsigned x) {
  unsigned r = 0;
  for (int i = 0; i < 32; i++) r |= (x >> i & 1u) << (31 - i);
  return r;
}

inline void __threadfence() {}

// What a warp does together. A lane that is not there hands in nothing: its reader keeps its own value, as hardware has it
// for lanes out of range.
#define EMULATE_SITE __builtin_return_address(0)
#define EMULATE_CALL __attribute__((noinline))

namespace emulate {
template <class T> T shuffle(unsigned mask, T value, int source, void *site) {
  static_assert(sizeof(T) <= 8);
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  bits = exchange(mask, bits, source, site);
  memcpy(&value, &bits, sizeof(T));
  return value;
}
}  // namespace emulate

template <class T> EMULATE_CALL T __shfl_sync(unsigned mask, T value, int source) {
  return emulate::shuffle(mask, value, source & 31, EMULATE_SITE);
}
template <class T> EMULATE_CALL T __shfl_xor_sync(unsigned mask, T value, int bits) {
  return emulate::shuffle(mask, value, emulate::lane() ^ bits, EMULATE_SITE);
}
template <class T> EMULATE_CALL T __shfl_up_sync(unsigned mask, T value, unsigned by) {
  int source = emulate::lane() - int(by);
  return emulate::shuffle(mask, value, source < 0 ? emulate::lane() : source, EMULATE_SITE);
}
template <class T> EMULATE_CALL T __shfl_down_sync(unsigned mask, T value, unsigned by) {
  int source = emulate::lane() + int(by);
  return emulate::shuffle(mask, value, source > 31 ? emulate::lane() : source, EMULATE_SITE);
}
EMULATE_CALL inline unsigned __ballot_sync(unsigned mask, int value) { return emulate::ballot(mask, value != 0, EMULATE_SITE); }
EMULATE_CALL inline int __any_sync(unsigned mask, int value) { return emulate::ballot(mask, value != 0, EMULATE_SITE) != 0; }
EMULATE_CALL inline int __all_sync(unsigned mask, int value) { return emulate::ballot(mask, value == 0, EMULATE_SITE) == 0; }

// One fiber runs at a time, so an operation is atomic as it is.
#define EMULATE_ATOMIC(name, next)                                                                                      \
  template <class T>                                                                                                    \
  EMULATE_CALL __attribute__((no_sanitize_thread)) T name(T *address, std::type_identity_t<T> value) {                  \
    emulate::atomically(address, sizeof(T), EMULATE_SITE);                                                              \
    const T old = *address;                                                                                             \
    *address = next;                                                                                                    \
    return old;                                                                                                         \
  }
EMULATE_ATOMIC(atomicAdd, old + value)
EMULATE_ATOMIC(atomicSub, old - value)
EMULATE_ATOMIC(atomicMin, min(old, value))
EMULATE_ATOMIC(atomicMax, max(old, value))
EMULATE_ATOMIC(atomicAnd, old & value)
EMULATE_ATOMIC(atomicOr, old | value)
EMULATE_ATOMIC(atomicXor, old ^ value)
EMULATE_ATOMIC(atomicExch, value)
#undef EMULATE_ATOMIC
template <class T>
EMULATE_CALL __attribute__((no_sanitize_thread)) T atomicCAS(T *address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  emulate::atomically(address, sizeof(T), EMULATE_SITE);
  const T old = *address;
  if (old == expected) *address = value;
  return old;
}
