// A stand-in for NVIDIA's driver (libcuda.so.1), so that programs which open it run unchanged on a machine without a GPU.
//
// Memory is the host's, every call is done when it returns, and a launch runs in the emulator at once. It has the functions
// that CubeCL's CUDA runtime calls and refuses what a device refuses. A module is the path of a shared object: nvrtc.cpp
// makes one of a kernel's text.
//
// At the end of the process it prints what the emulator found, as `emulate: ..`, and `standin: N launches, at most M cubes`.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "machine.h"

// Accesses are not watched: a program's own code is not compiled for it.
namespace emulate {
void watch_launch() {}
void watch_cube() {}
void watch_barrier() {}
void watch_warp(uint32_t, unsigned) {}
void atomically(const void *, unsigned, void *) {}
int granule(int bytes) { return bytes; }
std::string place(uintptr_t address) {
  char text[32];
  snprintf(text, sizeof text, "0x%lx", static_cast<unsigned long>(address));
  return text;
}
}  // namespace emulate

namespace {

// Names and values of the driver's interface.
enum Result {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  InvalidDevice = 101,
  InvalidImage = 200,
  NotFound = 500,
};
using Pointer = unsigned long long;

// The device: one of compute capability 8.6.
constexpr size_t memory_bytes = size_t(4) << 30;
constexpr unsigned shared_bytes = 99 << 10, shared_unless_asked = 48 << 10;
constexpr unsigned most_cubes[3] = {0x7fffffff, 65535, 65535};
constexpr unsigned most_units[3] = {1024, 1024, 64};

struct Function {
  std::string name;
  void (*call)(void **);
  unsigned shared = shared_unless_asked;
};

// The emulator runs one launch at a time.
std::mutex one_at_a_time;
unsigned long launches = 0, largest = 0;

struct AtEnd {
  ~AtEnd() {
    emulate::finish();
    fprintf(stderr, "standin: %lu launches, at most %lu cubes\n", launches, largest);
  }
} at_end;

// Anything that is not null and that no other call gave.
void *handle() {
  static std::atomic<uintptr_t> last{0x1000};
  return reinterpret_cast<void *>(last += 16);
}

// Filled with NaN, as the emulator's own memory is.
Result allocate(void **to, size_t bytes) {
  if (bytes == 0) return InvalidValue;
  if (bytes > memory_bytes || posix_memalign(to, 512, bytes) != 0) return OutOfMemory;
  memset(*to, 0xff, bytes);
  return Success;
}

Result copy(void *to, const void *from, size_t bytes) {
  memcpy(to, from, bytes);
  return Success;
}

void *host(Pointer pointer) { return reinterpret_cast<void *>(pointer); }

// CUDA_MEMCPY2D: rows of two pieces of memory, either of them the host's.
struct Piece {
  size_t x_in_bytes, y;
  int memory_type;
  char *host;
  Pointer device;
  void *array;
  size_t pitch;
  char *row(size_t r) const {
    constexpr int of_host = 1;
    char *start = memory_type == of_host ? host : reinterpret_cast<char *>(device);
    return start + (y + r) * pitch + x_in_bytes;
  }
};
struct Rows {
  Piece from, to;
  size_t bytes, count;
};

}  // namespace

extern "C" {

int cuInit(unsigned) { return Success; }

int cuDriverGetVersion(int *version) { return *version = 12090, Success; }

int cuDeviceGetCount(int *count) { return *count = 1, Success; }

int cuDeviceGet(int *device, int index) { return *device = index, index == 0 ? Success : InvalidDevice; }

int cuDeviceGetName(char *name, int bytes, int) { return snprintf(name, bytes, "stand-in"), Success; }

int cuDeviceTotalMem_v2(size_t *bytes, int) { return *bytes = memory_bytes, Success; }

int cuMemGetInfo_v2(size_t *free, size_t *total) { return *free = *total = memory_bytes, Success; }

int cuDeviceGetAttribute(int *value, int attribute, int) {
  switch (attribute) {
    case 1: return *value = 1024, Success;  // threads of a block
    case 2: case 3: case 4: return *value = int(most_units[attribute - 2]), Success;
    case 5: case 6: case 7: return *value = int(most_cubes[attribute - 5]), Success;
    case 8: return *value = int(shared_unless_asked), Success;
    case 10: return *value = warpSize, Success;
    case 16: return *value = 82, Success;  // multiprocessors
    case 75: return *value = 8, Success;   // compute capability
    case 76: return *value = 6, Success;
    case 97: return *value = int(shared_bytes), Success;  // of a block that asks for it
  }
  fprintf(stderr, "standin: attribute %d of a device is asked for\n", attribute);
  return InvalidValue;
}

int cuDevicePrimaryCtxRetain(void **context, int) { return *context = handle(), Success; }
int cuDevicePrimaryCtxRelease_v2(int) { return Success; }
int cuCtxSetCurrent(void *) { return Success; }
int cuCtxSynchronize() { return Success; }

int cuStreamCreate(void **stream, unsigned) { return *stream = handle(), Success; }
int cuStreamDestroy_v2(void *) { return Success; }
int cuStreamSynchronize(void *) { return Success; }
int cuStreamWaitEvent(void *, void *, unsigned) { return Success; }

int cuEventCreate(void **event, unsigned) { return *event = handle(), Success; }
int cuEventDestroy_v2(void *) { return Success; }
int cuEventRecord(void *, void *) { return Success; }
int cuEventSynchronize(void *) { return Success; }
int cuEventQuery(void *) { return Success; }

int cuMemAlloc_v2(void **to, size_t bytes) { return allocate(to, bytes); }
int cuMemAllocAsync(void **to, size_t bytes, void *) { return allocate(to, bytes); }
int cuMemAllocHost_v2(void **to, size_t bytes) { return allocate(to, bytes); }
int cuMemFree_v2(Pointer memory) { return free(host(memory)), Success; }
int cuMemFreeAsync(Pointer memory, void *) { return free(host(memory)), Success; }
int cuMemFreeHost(void *memory) { return free(memory), Success; }

int cuMemcpyHtoDAsync_v2(Pointer to, const void *from, size_t bytes, void *) { return copy(host(to), from, bytes); }
int cuMemcpyDtoHAsync_v2(void *to, Pointer from, size_t bytes, void *) { return copy(to, host(from), bytes); }
int cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t bytes, void *) { return copy(host(to), host(from), bytes); }
int cuMemcpy2DAsync_v2(const Rows *rows, void *) {
  for (size_t r = 0; r < rows->count; r++) memcpy(rows->to.row(r), rows->from.row(r), rows->bytes);
  return Success;
}

int cuModuleLoadData(void **module, const void *image) {
  *module = dlopen(static_cast<const char *>(image), RTLD_NOW | RTLD_LOCAL);
  if (*module) return Success;
  fprintf(stderr, "standin: %s\n", dlerror());
  return InvalidImage;
}

int cuModuleUnload(void *) { return Success; }

int cuModuleGetFunction(void **function, void *module, const char *name) {
  void *call = dlsym(module, (std::string("standin_") + name).c_str());
  if (!call) return NotFound;
  *function = new Function{name, reinterpret_cast<void (*)(void **)>(call)};
  return Success;
}

int cuFuncSetAttribute(void *function, int attribute, int value) {
  constexpr int dynamic_shared_bytes = 8;
  if (attribute != dynamic_shared_bytes || value < 0 || unsigned(value) > shared_bytes) return InvalidValue;
  static_cast<Function *>(function)->shared = std::max(unsigned(value), shared_unless_asked);
  return Success;
}

int cuLaunchKernel(void *of, unsigned x, unsigned y, unsigned z, unsigned units_x, unsigned units_y, unsigned units_z,
                   unsigned shared, void *, void **arguments, void **) {
  const auto *function = static_cast<Function *>(of);
  const unsigned cubes[3] = {x, y, z}, units[3] = {units_x, units_y, units_z};
  for (int i = 0; i < 3; i++)
    if (cubes[i] == 0 || cubes[i] > most_cubes[i] || units[i] == 0 || units[i] > most_units[i]) return InvalidValue;
  if (units_x * units_y * units_z > emulate::most_threads || shared > function->shared) return InvalidValue;
  std::lock_guard<std::mutex> lock(one_at_a_time);
  launches++;
  largest = std::max(largest, static_cast<unsigned long>(x) * y * z);
  emulate::launch({function->name.c_str(), dim3(x, y, z), dim3(units_x, units_y, units_z), shared},
                  [&] { function->call(arguments); });
  return Success;
}

int cuGetErrorName(int error, const char **name) {
  static thread_local char text[32];
  snprintf(text, sizeof text, "error %d", error);
  return *name = text, Success;
}
int cuGetErrorString(int error, const char **text) { return cuGetErrorName(error, text); }

}  // extern "C"
