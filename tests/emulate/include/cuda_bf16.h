// The upper half of single precision.
#pragma once
#include "cuda_runtime.h"
#include "small_floats.h"

using __nv_bfloat16 = emulate::Small<8, 7>;
using __nv_bfloat162 = emulate::Two<__nv_bfloat16>;
inline __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
inline float __bfloat162float(__nv_bfloat16 x) { return float(x); }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
