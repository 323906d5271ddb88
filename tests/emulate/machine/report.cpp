// What was found, each finding once, with places in the kernels' text.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <tuple>
#include <unistd.h>

#include "machine.h"

namespace emulate {
namespace {

using Key = std::tuple<std::string, uintptr_t, uintptr_t>;
std::map<Key, int> counts;
std::vector<std::pair<Key, std::string>> findings;

constexpr size_t most_findings = 50;

}  // namespace

// A place as FILE:LINE. The binutils that assembled the program also read it.
std::string line(uintptr_t site) {
  if (site == 0) return "?";
  static std::map<uintptr_t, std::string> known;
  auto &text = known[site];
  if (!text.empty()) return text;
  std::string file = "/proc/" + std::to_string(getpid()) + "/exe";
  // One less: a call's return address may belong to the next line.
  uintptr_t address = site - 1;
  // A kernel of the stand-in (standin/) is a shared object, with addresses of its own.
  Dl_info object;
  if (dladdr(reinterpret_cast<void *>(site), &object) && strstr(object.dli_fname, ".so")) {
    file = object.dli_fname;
    address -= uintptr_t(object.dli_fbase);
  }
  char place[32], answer[512] = "";
  snprintf(place, sizeof place, "' 0x%lx", static_cast<unsigned long>(address));
  if (FILE *pipe = popen(("addr2line -e '" + file + place).c_str(), "r")) {
    if (!fgets(answer, sizeof answer, pipe)) answer[0] = 0;
    pclose(pipe);
  }
  text = answer;
  text = text.substr(0, text.find_first_of(" \n"));
  if (auto slash = text.find_last_of('/'); slash != std::string::npos) text = text.substr(slash + 1);
  return text.empty() ? text = "?" : text;
}

// A compiler may copy a barrier, so that one line has several addresses.
bool same_line(uintptr_t a, uintptr_t b) { return a == b || line(a) == line(b); }

void found(const char *kind, uintptr_t site, uintptr_t other, const char *format, ...) {
  const Key key{kind, site, other};
  if (counts[key]++ > 0 || findings.size() >= most_findings) return;
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  findings.emplace_back(key, text);
}

int finish() {
  fflush(stdout);
  for (auto &[key, text] : findings)
    fprintf(stderr, "emulate: %s: %s (%d times)\n", std::get<0>(key).c_str(), text.c_str(), counts[key]);
  if (counts.size() > findings.size()) fprintf(stderr, "emulate: and %zu more\n", counts.size() - findings.size());
  return findings.empty() ? 0 : 3;
}

void give_up() {
  finish();
  _exit(3);
}

}  // namespace emulate
