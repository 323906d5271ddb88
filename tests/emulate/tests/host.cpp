// Runs the case that is named, on numbers that anyone can compute again, and prints what the kernel wrote.
#include <string>

static float *numbers(const char *name, int count, float scale) {
  auto *p = static_cast<float *>(emulate::allocate(name, count * sizeof(float)));
  for (int i = 0; i < count; i++) p[i] = scale * float(i % 7 - 3);
  return p;
}

static void print(const float *p, int count) {
  for (int i = 0; i < count; i++) printf("%.9g\n", p[i]);
}

int main(int, char **arguments) {
  const std::string name = arguments[1];
#define CASE(space, function, cubes, threads, shared, ...) \
  if (name == #space "::" #function) emulate::launch({#function, dim3(cubes), dim3(threads), shared}, [&] { space::function(__VA_ARGS__); });
#define RECURRENT(space) CASE(space, recurrent, 2, 64, 256, x, w, y, {})
  float *x = numbers("x", 256, 0.25f), *w = numbers("w", 64 * 64, 0.1f);
  float *y = static_cast<float *>(emulate::allocate("y", 256 * sizeof(float)));
  float *sum = numbers("sum", 32, 0.0f);
  RECURRENT(recurrent) RECURRENT(changed)
  CASE(warps, warps, 1, 40, 160, x, y)
  CASE(shuffled, warps, 1, 40, 160, x, y)
  CASE(faults, divergent, 1, 32, 0, y) CASE(faults, branches, 1, 32, 0, y)
  CASE(faults, beyond, 8, 32, 0, sum) CASE(faults, beyond_shared, 1, 32, 128, y)
  CASE(faults, unwritten, 1, 32, 128, y)
  CASE(faults, cubes, 2, 1, 0, sum) CASE(faults, atomic, 2, 32, 0, sum)
  CASE(faults, workspace, 1, 32, 0, y)
  CASE(small, tensor, 1, 32, 1024, x, w, y)
  if (name == "floats") {
    for (float f : {1.0f, 0.1f, 65519.0f, 65520.0f, 6e-8f, 1e-8f, -3.14159f, 3.0e38f})
      printf("%.9g\n%.9g\n%.9g\n", float(__half(f)), float(__nv_bfloat16(f)), nvcuda::wmma::__float_to_tf32(f));
  } else if (name.find("faults") == 0 && name != "faults::unwritten") {
    print(sum, 1);
  } else {
    print(y, 160);
  }
  return emulate::finish();
}
