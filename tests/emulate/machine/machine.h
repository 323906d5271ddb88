// What the parts of the machine know of each other: emulate.cpp runs fibers, accesses.cpp watches what they touch,
// report.cpp says what was found.
#pragma once
#include <cstdarg>
#include <cstdint>
#include <string>
#include <vector>

#include "emulate.h"

namespace emulate {

constexpr size_t shared_capacity = 256 << 10;
constexpr size_t stack_bytes = 128 << 10;
constexpr size_t most_threads = 1024;

struct Buffer {
  std::string name;
  uintptr_t start, end;
};

struct Machine {
  Launch launch{};
  bool running = false;
  uint32_t cube = 0;
  uint32_t thread = 0;
  std::vector<Buffer> buffers;
  // All stacks of fibers lie in one piece.
  uintptr_t stacks = 0;
};
extern Machine machine;

struct Options {
  // Threads run in an order that this number decides; in their own order if it is 0.
  uint64_t order = 0;
  // Shared memory starts as NaN; as zeros otherwise.
  bool poison = false;
  // No more cubes than this of each launch.
  uint32_t cubes = ~0u;
  // A barrier that is left out, to see whether anyone notices.
  unsigned without = ~0u;
  // Reads of shared memory that nobody wrote.
  bool uninitialised = false;
};
extern Options options;

// accesses.cpp
void watch_launch();
void watch_cube();
void watch_barrier();
void watch_warp(uint32_t warp, unsigned lanes);
// The buffer that an address lies in or next to.
std::string place(uintptr_t address);

// report.cpp: one finding, said once however often it occurs. The sites make it the same or another.
void found(const char *kind, uintptr_t site, uintptr_t other, const char *format, ...) __attribute__((format(printf, 4, 5)));
std::string line(uintptr_t site);
bool same_line(uintptr_t a, uintptr_t b);
// Says what was found so far and ends the program.
[[noreturn]] void give_up();

}  // namespace emulate
