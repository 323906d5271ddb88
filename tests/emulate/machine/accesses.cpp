// Every access to memory, checked: bounds, order against other threads, reads of what nobody wrote.
//
// A kernel that is compiled with -fsanitize=thread calls __tsan_read4 and the like before its accesses. Here they are ours.
//
// Two accesses to the same place, at least one of them a write, by different threads, need something that orders them: a
// barrier of the cube, a __syncwarp of both lanes, or the end of a launch. Which of the two fibers ran first does not matter,
// so that a race is found in whatever order threads run. Cubes of one launch are never ordered. Atomic accesses do not race
// with each other.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "machine.h"

extern unsigned char dynamic_shared_mem[] __asm__("emulate_shared");
extern char __executable_start;

namespace emulate {
namespace {

// Counts barriers, cubes and launches, so that nothing of an earlier one needs to be forgotten.
uint32_t epoch = 1;
uint32_t launch_epoch = 1;
int granule_bits = 2;
uintptr_t host_stack, heap_end;
bool warps_synchronised = false;

// How often a lane has synchronised with its warp since the last barrier, and with which count of the others it last did.
struct Lane {
  uint32_t count;
  uint32_t seen[warpSize];
};
Lane lanes[most_threads];

// Who touched a place.
struct Access {
  uint32_t epoch;
  uint32_t cube;
  uint32_t thread : 10;
  uint32_t count : 22;
  uint32_t site;
};

// What is remembered of a place. Of readers, the last one of each kind that a later writer could race with: itself, another
// lane of its warp, another warp of its cube, another cube.
struct Place {
  Access write;
  bool atomic;
  Access last, lane, warp, cube;
};

struct Shadow {
  uintptr_t start, end;
  Place *places;
  const char *name;
};

std::vector<Shadow> shadows;
Shadow shared_shadow;

Place *places_for(size_t bytes) {
  const size_t size = ((bytes >> granule_bits) + 2) * sizeof(Place);
  void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) abort();
  return static_cast<Place *>(memory);
}

bool ordered(const Access &before, const Access &now) {
  if (before.epoch < launch_epoch) return true;
  if (before.cube != now.cube) return false;
  if (before.thread == now.thread || before.epoch < now.epoch) return true;
  return before.thread / warpSize == now.thread / warpSize && before.count < lanes[now.thread].seen[before.thread % warpSize];
}

void race(const Shadow &shadow, uintptr_t address, const Access &before, bool wrote, const Access &now, bool writes) {
  const bool in_shared = &shadow == &shared_shadow;
  const size_t byte = (address - shadow.start) >> granule_bits << granule_bits;
  found("race", before.site, now.site,
        "in `%s` on byte %zu of %s: thread %u of cube %u %s at %s and thread %u of cube %u %s at %s, unordered",
        machine.launch.kernel, byte, in_shared ? "shared memory" : shadow.name, unsigned(before.thread), before.cube,
        wrote ? "writes" : "reads", line(before.site).c_str(), unsigned(now.thread), now.cube, writes ? "writes" : "reads",
        line(now.site).c_str());
}

void note_reader(Place &place, const Access &now) {
  const Access last = place.last;
  place.last = now;
  if (last.epoch == 0 || (last.cube == now.cube && last.thread == now.thread)) return;
  if (last.cube != now.cube) place.cube = last;
  else if (last.thread / warpSize != now.thread / warpSize) place.warp = last;
  else place.lane = last;
}

void touch(const Shadow &shadow, uintptr_t address, Place &place, const Access &now, bool writes, bool atomic) {
  const bool against_write = place.write.epoch != 0 && !(atomic && place.atomic);
  if (against_write && !ordered(place.write, now)) race(shadow, address, place.write, true, now, writes);
  if (!writes) {
    if (options.uninitialised && &shadow == &shared_shadow && place.write.epoch == 0)
      found("uninitialised", now.site, 0, "`%s` reads byte %zu of shared memory at %s and nobody wrote it",
            machine.launch.kernel, size_t(address - shadow.start), line(now.site).c_str());
    note_reader(place, now);
    return;
  }
  for (const Access &reader : {place.last, place.lane, place.warp, place.cube})
    if (reader.epoch != 0 && !ordered(reader, now)) race(shadow, address, reader, false, now, true);
  place.write = now;
  place.atomic = atomic;
}

// An address that is neither a kernel's memory nor the program's own.
void out_of_bounds(uintptr_t address, bool writes, void *site) {
  if (address >= uintptr_t(&__executable_start) && address < heap_end) return;
  // The host's stack holds what a kernel is called with.
  if (address >= host_stack - (1 << 20) && address < host_stack + (8 << 20)) return;
  found("out of bounds", uintptr_t(site), 0, "in `%s` thread %u of cube %u %s %s at %s", machine.launch.kernel, machine.thread,
        machine.cube, writes ? "writes" : "reads", place(address).c_str(), line(uintptr_t(site)).c_str());
}

void access(const void *pointer, unsigned size, bool writes, bool atomic, void *site) {
  const auto address = uintptr_t(pointer);
  if (!machine.running || address - machine.stacks < most_threads * stack_bytes) return;
  const Shadow *shadow = nullptr;
  if (address - shared_shadow.start < shared_capacity) {
    shadow = &shared_shadow;
    if (address + size > shared_shadow.start + machine.launch.shared) {
      found("out of bounds", uintptr_t(site), 0, "in `%s` thread %u of cube %u %s shared memory at byte %zu and has %zu, at %s",
            machine.launch.kernel, machine.thread, machine.cube, writes ? "writes" : "reads", size_t(address - shared_shadow.start),
            machine.launch.shared, line(uintptr_t(site)).c_str());
      return;
    }
  } else {
    for (const Shadow &s : shadows)
      if (address >= s.start && address + size <= s.end) shadow = &s;
    if (!shadow) return out_of_bounds(address, writes, site);
  }
  const Access now{epoch, machine.cube, machine.thread, lanes[machine.thread].count, uint32_t(uintptr_t(site))};
  const size_t first = (address - shadow->start) >> granule_bits, last = (address + size - 1 - shadow->start) >> granule_bits;
  for (size_t i = first; i <= last; i++) touch(*shadow, address, shadow->places[i], now, writes, atomic);
}

}  // namespace

int granule(int bytes) {
  granule_bits = std::min(granule_bits, __builtin_ctz(unsigned(bytes)));
  return bytes;
}

void watch_launch() {
  launch_epoch = ++epoch;
  char here;
  host_stack = uintptr_t(&here);
  heap_end = uintptr_t(sbrk(0));
  for (size_t i = shadows.size(); i < machine.buffers.size(); i++) {
    const Buffer &buffer = machine.buffers[i];
    shadows.push_back({buffer.start, buffer.end, places_for(buffer.end - buffer.start), buffer.name.c_str()});
  }
}

// Shared memory begins anew: nobody of this cube wrote or read it.
void watch_cube() {
  if (shared_shadow.places) munmap(shared_shadow.places, ((shared_capacity >> granule_bits) + 2) * sizeof(Place));
  const auto start = uintptr_t(dynamic_shared_mem);
  shared_shadow = {start, start + shared_capacity, places_for(shared_capacity), "shared memory"};
  watch_barrier();
}

void watch_barrier() {
  epoch++;
  if (warps_synchronised) std::fill(lanes, lanes + most_threads, Lane{});
  warps_synchronised = false;
}

void watch_warp(uint32_t first, unsigned group) {
  warps_synchronised = true;
  uint32_t newest[warpSize] = {};
  for (int l = 0; l < warpSize; l++) {
    if (!(group >> l & 1)) continue;
    for (int other = 0; other < warpSize; other++) newest[other] = std::max(newest[other], lanes[first + l].seen[other]);
    newest[l] = ++lanes[first + l].count;
  }
  for (int l = 0; l < warpSize; l++)
    if (group >> l & 1) std::copy(newest, newest + warpSize, lanes[first + l].seen);
}

std::string place(uintptr_t address) {
  for (size_t i = 0; i < most_threads; i++)
    if (address - machine.stacks - i * stack_bytes < 4096) return "more stack than a thread has";
  const Buffer *nearest = nullptr;
  uintptr_t distance = 1 << 20;
  for (const Buffer &buffer : machine.buffers) {
    const uintptr_t away = address < buffer.start ? buffer.start - address : address < buffer.end ? 0 : address - buffer.end;
    if (away < distance) nearest = &buffer, distance = away;
  }
  if (!nearest) return "no memory of its own";
  if (address < nearest->start) return "`" + nearest->name + "`, " + std::to_string(distance) + " bytes before its start";
  return "`" + nearest->name + "` at byte " + std::to_string(address - nearest->start) + " of " + std::to_string(nearest->end - nearest->start);
}

void atomically(const void *address, unsigned size, void *site) { access(address, size, true, true, site); }

}  // namespace emulate

#define EMULATE_SITE __builtin_return_address(0)
extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
#define EMULATE_ACCESS(bytes)                                                                                           \
  void __tsan_read##bytes(void *p) { emulate::access(p, bytes, false, false, EMULATE_SITE); }                           \
  void __tsan_write##bytes(void *p) { emulate::access(p, bytes, true, false, EMULATE_SITE); }                           \
  void __tsan_unaligned_read##bytes(void *p) { emulate::access(p, bytes, false, false, EMULATE_SITE); }                 \
  void __tsan_unaligned_write##bytes(void *p) { emulate::access(p, bytes, true, false, EMULATE_SITE); }
EMULATE_ACCESS(1)
EMULATE_ACCESS(2)
EMULATE_ACCESS(4)
EMULATE_ACCESS(8)
EMULATE_ACCESS(16)
void __tsan_read_range(void *p, unsigned long bytes) { emulate::access(p, unsigned(bytes), false, false, EMULATE_SITE); }
void __tsan_write_range(void *p, unsigned long bytes) { emulate::access(p, unsigned(bytes), true, false, EMULATE_SITE); }
}
