// Floating point numbers of 16 bits, by the width of their parts. Conversions round to nearest, ties to even.
#pragma once
#include "cuda_runtime.h"

namespace emulate {

inline const int half_granule = granule(2);

template <int Exponent, int Mantissa> class Small {
  static constexpr int bias = (1 << (Exponent - 1)) - 1;
  uint16_t bits;

 public:
  Small() = default;
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>> explicit Small(T x) : bits(narrow(float(x))) {}
  operator float() const { return widen(bits); }

  Small &operator+=(Small b) { return *this = *this + b; }
  Small &operator*=(Small b) { return *this = *this * b; }
  friend Small operator+(Small a, Small b) { return Small(float(a) + float(b)); }
  friend Small operator-(Small a, Small b) { return Small(float(a) - float(b)); }
  friend Small operator*(Small a, Small b) { return Small(float(a) * float(b)); }
  friend Small operator/(Small a, Small b) { return Small(float(a) / float(b)); }
  friend Small operator-(Small a) { return Small(-float(a)); }

 private:
  static uint16_t narrow(float x) {
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    const uint16_t infinity = ((1 << Exponent) - 1) << Mantissa;
    if (isnan(x)) return sign | infinity | 1 << (Mantissa - 1);
    const double size = fabs(double(x));
    int power = 0;
    if (size > 0 && !isinf(size)) frexp(size, &power);
    // One unit in the last place, that of the smallest normal number for those below it.
    const int unit = max(power - 1, 1 - bias) - Mantissa;
    const double scaled = isinf(size) ? size : nearbyint(ldexp(size, -unit));
    if (isinf(scaled)) return sign | infinity;
    // A mantissa that rounds up to the next power of two carries into the exponent by itself.
    const double code = scaled == 0 ? 0 : scaled + double(unit + Mantissa + bias - 1) * (1 << Mantissa);
    return sign | (code >= infinity ? infinity : uint16_t(code));
  }

  static float widen(uint16_t bits) {
    const int exponent = bits >> Mantissa & ((1 << Exponent) - 1);
    const int mantissa = bits & ((1 << Mantissa) - 1);
    const float sign = bits & 0x8000 ? -1.0f : 1.0f;
    if (exponent == (1 << Exponent) - 1) return mantissa ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexpf(float(mantissa), 1 - bias - Mantissa);
    return sign * ldexpf(float(mantissa + (1 << Mantissa)), exponent - bias - Mantissa);
  }
};

template <class T> struct alignas(4) Two {
  T x, y;
  friend Two operator+(Two a, Two b) { return {a.x + b.x, a.y + b.y}; }
  friend Two operator-(Two a, Two b) { return {a.x - b.x, a.y - b.y}; }
  friend Two operator*(Two a, Two b) { return {a.x * b.x, a.y * b.y}; }
  friend Two operator/(Two a, Two b) { return {a.x / b.x, a.y / b.y}; }
};

#define EMULATE_UNARY(name, f)                                                                                          \
  template <int E, int M> Small<E, M> name(Small<E, M> a) { return Small<E, M>(f(float(a))); }
EMULATE_UNARY(hexp, expf)
EMULATE_UNARY(hlog, logf)
EMULATE_UNARY(hsin, sinf)
EMULATE_UNARY(hcos, cosf)
EMULATE_UNARY(hsqrt, sqrtf)
EMULATE_UNARY(hrsqrt, rsqrt)
EMULATE_UNARY(hceil, ceilf)
EMULATE_UNARY(hfloor, floorf)
EMULATE_UNARY(htrunc, truncf)
EMULATE_UNARY(hrint, rintf)
#undef EMULATE_UNARY
template <int E, int M> Small<E, M> __hmin(Small<E, M> a, Small<E, M> b) { return Small<E, M>(fminf(a, b)); }
template <int E, int M> Small<E, M> __hmax(Small<E, M> a, Small<E, M> b) { return Small<E, M>(fmaxf(a, b)); }
template <int E, int M> Small<E, M> fma(Small<E, M> a, Small<E, M> b, Small<E, M> c) { return Small<E, M>(fmaf(a, b, c)); }
template <int E, int M> bool __hisnan(Small<E, M> a) { return isnan(float(a)); }

}  // namespace emulate
