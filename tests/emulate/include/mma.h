// Tensor cores: a warp multiplies matrices of which every lane holds a part.
//
// How hardware spreads a matrix over lanes is not defined, and here lane l holds the elements l, l + 32, .. of it. Products
// are summed in single precision, as hardware does, in order of k, which hardware does not promise.
#pragma once
#include "cuda_runtime.h"

namespace emulate {
// Numbers that the lanes of the current warp hold together; `part` 0 to 2.
float *together(int part);
void converge(void *site);
}  // namespace emulate

namespace nvcuda::wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
}

// 10 bits of mantissa in a 32-bit number, rounded to nearest with ties away, as cvt.rna.
inline float __float_to_tf32(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  if (isfinite(x)) bits = (bits + 0x1000) & ~0x1fffu;
  memcpy(&x, &bits, 4);
  return x;
}

template <class T> struct stored { using type = T; };
template <> struct stored<precision::tf32> { using type = float; };

template <class Use, int M, int N, int K, class T, class Layout = void> struct fragment {
  static constexpr int rows = std::is_same_v<Use, matrix_b> ? K : M;
  static constexpr int columns = std::is_same_v<Use, matrix_a> ? K : N;
  static constexpr int num_elements = rows * columns / 32;
  typename stored<T>::type x[num_elements];

  // Row and column of a lane's i-th element.
  static int row(int i) { return (i * 32 + emulate::lane()) / columns; }
  static int column(int i) { return (i * 32 + emulate::lane()) % columns; }
};

template <class F, class V> void fill_fragment(F &f, V value) {
  for (auto &x : f.x) x = std::remove_reference_t<decltype(x)>(value);
}

template <class F, class P> void load(F &f, const P *from, unsigned stride, bool by_row) {
  for (int i = 0; i < F::num_elements; i++)
    f.x[i] = from[by_row ? F::row(i) * stride + F::column(i) : F::column(i) * stride + F::row(i)];
}
template <class Use, int M, int N, int K, class T, class L, class P>
EMULATE_CALL void load_matrix_sync(fragment<Use, M, N, K, T, L> &f, const P *from, unsigned stride) {
  emulate::converge(EMULATE_SITE);
  load(f, from, stride, std::is_same_v<L, row_major>);
}
template <int M, int N, int K, class T, class P>
EMULATE_CALL void load_matrix_sync(fragment<accumulator, M, N, K, T> &f, const P *from, unsigned stride, layout_t layout) {
  emulate::converge(EMULATE_SITE);
  load(f, from, stride, layout == mem_row_major);
}
template <int M, int N, int K, class T, class P>
EMULATE_CALL void store_matrix_sync(P *to, const fragment<accumulator, M, N, K, T> &f, unsigned stride, layout_t layout) {
  using F = fragment<accumulator, M, N, K, T>;
  emulate::converge(EMULATE_SITE);
  for (int i = 0; i < F::num_elements; i++)
    to[layout == mem_row_major ? F::row(i) * stride + F::column(i) : F::column(i) * stride + F::row(i)] = f.x[i];
}

template <int M, int N, int K, class C, class T, class LA, class LB>
EMULATE_CALL __attribute__((no_sanitize_thread)) void mma_sync(fragment<accumulator, M, N, K, C> &d,
                                                               const fragment<matrix_a, M, N, K, T, LA> &a,
                                                               const fragment<matrix_b, M, N, K, T, LB> &b,
                                                               const fragment<accumulator, M, N, K, C> &c) {
  float *left = emulate::together(0), *right = emulate::together(1);
  const int lane = emulate::lane();
  // A tensor core reads no more of a tf32 than its 19 bits.
  auto seen = [](float x) { return std::is_same_v<T, precision::tf32> ? __float_to_tf32(x) : x; };
  for (int i = 0; i < a.num_elements; i++) left[i * 32 + lane] = seen(float(a.x[i]));
  for (int i = 0; i < b.num_elements; i++) right[i * 32 + lane] = seen(float(b.x[i]));
  emulate::converge(EMULATE_SITE);
  for (int i = 0; i < c.num_elements; i++) {
    float sum = float(c.x[i]);
    for (int k = 0; k < K; k++) sum += left[c.row(i) * K + k] * right[k * N + c.column(i)];
    d.x[i] = C(sum);
  }
  emulate::converge(EMULATE_SITE);
}

}  // namespace nvcuda::wmma
