// Half precision: stored in 16 bits, computed in single precision and rounded after every operation.
#pragma once
#include "cuda_runtime.h"
#include "small_floats.h"

using __half = emulate::Small<5, 10>;
using half = __half;
using __half2 = emulate::Two<__half>;
inline __half __float2half_rn(float x) { return __half(x); }
inline float __half2float(__half x) { return float(x); }
inline __half2 __halves2half2(__half a, __half b) { return {a, b}; }
