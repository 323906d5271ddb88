// Fibers, barriers and warps.
//
// EMULATE is a list of options: order=SEED (threads in another order, another one after each barrier), poison (shared memory
// starts as NaN), cubes=N (only the first N cubes of each launch), without=N (leave EMULATE_BARRIER(N) out), uninitialised (report reads of shared memory that was not
// written; only where accesses are watched).
#include "emulate.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#if defined(__x86_64__) && !defined(EMULATE_PORTABLE)
#define EMULATE_ASSEMBLER
#endif
#include <ucontext.h>

#include "machine.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;
alignas(4096) unsigned char dynamic_shared_mem[emulate::shared_capacity] __asm__("emulate_shared");

namespace emulate {

Machine machine;
Options options;

namespace {

[[noreturn]] void misuse(const char *what, const char *name) {
  fprintf(stderr, "emulate: %s `%s`\n", what, name);
  exit(2);
}

// A context that was left, to be gone on with. Only what a callee must keep is saved; the portable one asks the system twice
// for each switch.
#if defined(EMULATE_ASSEMBLER)
extern "C" void emulate_switch(void **save, void *load);
asm(R"(
.text
.type emulate_switch, @function
emulate_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulate_switch, .-emulate_switch
)");
struct Context {
  void *stack = nullptr;
  void start(char *bottom, size_t bytes, void (*entry)()) {
    auto **top = reinterpret_cast<void **>(bottom + bytes);
    // At a function's entry the stack is eight bytes off a multiple of 16.
    top[-1] = nullptr;
    top[-2] = reinterpret_cast<void *>(entry);
    std::fill(top - 8, top - 2, nullptr);
    stack = top - 8;
  }
  void to(Context &other) { emulate_switch(&stack, other.stack); }
};
#else
struct Context {
  ucontext_t context;
  void start(char *bottom, size_t bytes, void (*entry)()) {
    getcontext(&context);
    context.uc_stack.ss_sp = bottom;
    context.uc_stack.ss_size = bytes;
    context.uc_link = nullptr;
    makecontext(&context, entry, 0);
  }
  void to(Context &other) { swapcontext(&context, &other.context); }
};
#endif

enum class State { Ready, AtBarrier, InWarp, Done };

struct Fiber {
  Context context;
  State state;
  // Where it waits; in a warp for whom, and whether that orders accesses to memory.
  void *site;
  unsigned mask;
  bool orders;
  // What it hands to its warp, and what the warp got of it when everyone was there: it may have gone on to the next.
  uint64_t value, given;
  unsigned group;
};

std::vector<Fiber> fibers;
std::vector<uint32_t> sequence;
Context scheduler;
void (*body)(void *);
void *context;

struct Random {
  uint64_t state;
  uint64_t next() {
    state += 0x9e3779b97f4a7c15;
    uint64_t z = state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
} random_order;

Fiber &current() { return fibers[machine.thread]; }

void select(uint32_t thread) {
  machine.thread = thread;
  threadIdx = {thread % blockDim.x, thread / blockDim.x % blockDim.y, thread / (blockDim.x * blockDim.y)};
}

// Until whoever is waited for has come.
void wait(State state, void *site, unsigned mask = 0, bool orders = false) {
  Fiber &fiber = current();
  fiber.state = state;
  fiber.site = site;
  fiber.mask = mask;
  fiber.orders = orders;
  fiber.context.to(scheduler);
}

void fiber_main() {
  body(context);
  current().state = State::Done;
  current().context.to(scheduler);
  abort();
}

void permute() {
  if (options.order == 0) return;
  for (size_t i = sequence.size(); i > 1; i--) std::swap(sequence[i - 1], sequence[random_order.next() % i]);
}

void release_group(uint32_t first, unsigned group) {
  const Fiber &one = fibers[first + __builtin_ctz(group)];
  bool orders = true;
  for (unsigned rest = group; rest; rest &= rest - 1) {
    Fiber &fiber = fibers[first + __builtin_ctz(rest)];
    if (!same_line(uintptr_t(fiber.site), uintptr_t(one.site)))
      found("divergence", uintptr_t(one.site), uintptr_t(fiber.site),
            "in `%s` some lanes of a warp are at %s and some at %s", machine.launch.kernel,
            line(uintptr_t(one.site)).c_str(), line(uintptr_t(fiber.site)).c_str());
    fiber.state = State::Ready;
    fiber.group = group;
    fiber.given = fiber.value;
    orders &= fiber.orders;
  }
  if (orders) watch_warp(first, group);
}

// Lets those lanes go on whose partners have come. Lanes that wait at a barrier have not, those that have ended need not.
bool release_warps() {
  bool any = false;
  for (size_t first = 0; first < fibers.size(); first += warpSize) {
    Fiber *warp = &fibers[first];
    const size_t count = std::min<size_t>(warpSize, fibers.size() - first);
    unsigned here = 0, alive = 0;
    for (size_t l = 0; l < count; l++) {
      if (warp[l].state == State::InWarp) here |= 1u << l;
      if (warp[l].state != State::Done) alive |= 1u << l;
    }
    for (unsigned rest = here; rest; rest &= rest - 1) {
      const int l = __builtin_ctz(rest);
      if (warp[l].state != State::InWarp || (warp[l].mask & alive & ~here)) continue;
      any = true;
      release_group(uint32_t(first), warp[l].mask & here);
    }
  }
  return any;
}

// Those who wait, by line: what a divergence report says.
[[noreturn]] void diverged() {
  std::map<std::string, int> where;
  uintptr_t site = 0;
  for (const Fiber &fiber : fibers) {
    if (fiber.state == State::Done) {
      where["have ended"]++;
      continue;
    }
    site = uintptr_t(fiber.site);
    where[(fiber.state == State::AtBarrier ? "wait for the cube at " : "wait for their warp at ") + line(site)]++;
  }
  std::string text;
  for (auto &[what, count] : where) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  found("divergence", site, 0, "in `%s` cube %u does not go on: of its threads %s", machine.launch.kernel, machine.cube, text.c_str());
  give_up();
}

// Lets everyone go on if everyone is at the barrier.
bool release_cube() {
  const Fiber &one = fibers[0];
  for (const Fiber &fiber : fibers)
    if (fiber.state != State::AtBarrier) return false;
  for (Fiber &fiber : fibers) {
    if (!same_line(uintptr_t(fiber.site), uintptr_t(one.site)))
      found("divergence", uintptr_t(one.site), uintptr_t(fiber.site),
            "in `%s` some threads are at the barrier of %s and some at that of %s", machine.launch.kernel,
            line(uintptr_t(one.site)).c_str(), line(uintptr_t(fiber.site)).c_str());
    fiber.state = State::Ready;
  }
  watch_barrier();
  return true;
}

void prepare_shared() {
  // NaN in all precisions, and an index far out of everything.
  memset(dynamic_shared_mem, options.poison ? 0xff : 0, machine.launch.shared);
  memset(dynamic_shared_mem + machine.launch.shared, 0xa5, std::min<size_t>(64, shared_capacity - machine.launch.shared));
}

// Without watched accesses too, a store just behind the end is seen.
void check_shared() {
  const size_t end = machine.launch.shared;
  for (size_t i = end; i < std::min(end + 64, shared_capacity); i++)
    if (dynamic_shared_mem[i] != 0xa5) {
      found("out of bounds", 0, 0, "`%s` writes shared memory at byte %zu and has %zu", machine.launch.kernel, i, end);
      return;
    }
}

void run_cube() {
  prepare_shared();
  watch_cube();
  for (size_t i = 0; i < fibers.size(); i++) {
    fibers[i].state = State::Ready;
    // The lowest page of a stack may not be touched: kernels with too many locals end there.
    fibers[i].context.start(reinterpret_cast<char *>(machine.stacks) + i * stack_bytes, stack_bytes, fiber_main);
  }
  for (;;) {
    permute();
    for (uint32_t thread : sequence) {
      if (fibers[thread].state != State::Ready) continue;
      select(thread);
      scheduler.to(fibers[thread].context);
    }
    if (release_warps() || release_cube()) continue;
    if (std::all_of(fibers.begin(), fibers.end(), [](const Fiber &f) { return f.state == State::Done; })) break;
    if (std::none_of(fibers.begin(), fibers.end(), [](const Fiber &f) { return f.state == State::Ready; })) diverged();
  }
  check_shared();
}

void fault(int, siginfo_t *info, void *where) {
  uintptr_t site = 0;
#if defined(__x86_64__)
  site = uintptr_t(static_cast<ucontext_t *>(where)->uc_mcontext.gregs[REG_RIP]) + 1;
#else
  (void)where;
#endif
  const auto address = uintptr_t(info->si_addr);
  if (machine.running)
    found("out of bounds", site, 0, "in `%s` thread %u of cube %u touches %s at %s", machine.launch.kernel, machine.thread,
          machine.cube, place(address).c_str(), line(site).c_str());
  else
    found("out of bounds", site, 0, "the host touches %s at %s", place(address).c_str(), line(site).c_str());
  give_up();
}

void read_options() {
  const char *text = getenv("EMULATE");
  std::string rest = text ? text : "";
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string option = rest.substr(0, comma);
    rest.erase(0, comma + 1);
    if (option.rfind("order=", 0) == 0) options.order = strtoull(option.c_str() + 6, nullptr, 10);
    else if (option.rfind("cubes=", 0) == 0) options.cubes = uint32_t(strtoul(option.c_str() + 6, nullptr, 10));
    else if (option.rfind("without=", 0) == 0) options.without = unsigned(strtoul(option.c_str() + 8, nullptr, 10));
    else if (option == "poison") options.poison = true;
    else if (option == "uninitialised") options.uninitialised = true;
    else misuse("unknown option", option.c_str());
  }
  random_order.state = options.order;
}

void start() {
  static bool started = false;
  if (started) return;
  started = true;
  read_options();
  void *stacks = mmap(nullptr, most_threads * stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stacks == MAP_FAILED) misuse("no memory for", "stacks");
  machine.stacks = uintptr_t(stacks);
  for (size_t i = 0; i < most_threads; i++)
    mprotect(static_cast<char *>(stacks) + i * stack_bytes, 4096, PROT_NONE);
  static char signal_stack[64 << 10];
  stack_t alternative{.ss_sp = signal_stack, .ss_flags = 0, .ss_size = sizeof signal_stack};
  sigaltstack(&alternative, nullptr);
  struct sigaction action {};
  action.sa_sigaction = fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (int signal : {SIGSEGV, SIGBUS}) sigaction(signal, &action, nullptr);
}

}  // namespace

void *allocate(const char *name, size_t bytes) {
  start();
  const size_t page = 4096, zone = 64 * page;
  const size_t inside = (std::max<size_t>(bytes, 1) + page - 1) / page * page;
  auto *region = static_cast<char *>(mmap(nullptr, inside + 2 * zone, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (region == MAP_FAILED) misuse("no memory for", name);
  mprotect(region + zone, inside, PROT_READ | PROT_WRITE);
  // As near to the forbidden page behind it as vectors of 16 bytes allow.
  char *start = region + zone + (inside - bytes) / 16 * 16;
  memset(start, 0xff, bytes);
  machine.buffers.push_back({name, uintptr_t(start), uintptr_t(start) + bytes});
  return start;
}

void run(const Launch &launch, void (*function)(void *), void *argument) {
  start();
  const size_t threads = size_t(launch.block.x) * launch.block.y * launch.block.z;
  if (threads == 0 || threads > most_threads) misuse("a cube has 1 to 1024 threads, unlike", launch.kernel);
  if (launch.shared > shared_capacity) misuse("too much shared memory for", launch.kernel);
  machine.launch = launch;
  blockDim = launch.block;
  gridDim = launch.grid;
  body = function;
  context = argument;
  fibers.resize(threads);
  sequence.resize(threads);
  for (size_t i = 0; i < threads; i++) sequence[i] = uint32_t(i);
  watch_launch();
  machine.running = true;
  const uint64_t cubes = uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z;
  for (uint32_t cube = 0; cube < std::min<uint64_t>(cubes, options.cubes); cube++) {
    machine.cube = cube;
    blockIdx = {cube % gridDim.x, cube / gridDim.x % gridDim.y, cube / (gridDim.x * gridDim.y)};
    run_cube();
  }
  machine.running = false;
}

bool left_out(unsigned barrier) { return barrier == options.without; }

int lane() { return int(machine.thread) % warpSize; }

uint64_t exchange(unsigned mask, uint64_t value, int source, void *site) {
  const uint32_t thread = machine.thread;
  fibers[thread].value = value;
  wait(State::InWarp, site, mask);
  const Fiber *warp = &fibers[thread / warpSize * warpSize];
  return fibers[thread].group >> source & 1 ? warp[source].given : value;
}

unsigned ballot(unsigned mask, bool value, void *site) {
  const uint32_t thread = machine.thread;
  fibers[thread].value = value;
  wait(State::InWarp, site, mask);
  const Fiber *warp = &fibers[thread / warpSize * warpSize];
  unsigned bits = 0;
  for (unsigned rest = fibers[thread].group; rest; rest &= rest - 1) {
    const int l = __builtin_ctz(rest);
    if (warp[l].given) bits |= 1u << l;
  }
  return bits;
}

float *together(int part) {
  static float numbers[most_threads / warpSize][3][1024];
  return numbers[machine.thread / warpSize][part];
}

void converge(void *site) { wait(State::InWarp, site, ~0u); }

}  // namespace emulate

void __syncthreads() { emulate::wait(emulate::State::AtBarrier, __builtin_return_address(0)); }

// Unlike a shuffle, which moves values and orders no accesses to memory.
void __syncwarp(unsigned mask) { emulate::wait(emulate::State::InWarp, __builtin_return_address(0), mask, true); }
