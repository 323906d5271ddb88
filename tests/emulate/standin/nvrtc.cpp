// A stand-in for NVIDIA's run-time compiler (libnvrtc.so.12): compiles a kernel's text with g++ against the emulator's CUDA.
// Its "PTX" is the path of a shared object, which driver.cpp loads.
//
// `--include-path` names the emulator's `include`; objects go to the folder `kernels` of CUDA_PATH, by the hash of their text.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace {

enum Result { Success = 0, InvalidInput = 3, Compilation = 6 };

struct Program {
  std::string source, object, log;
};

std::string read(const std::string &path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The name of the only kernel of a text; empty where there is none.
std::string kernel_of(const std::string &source) {
  const size_t start = source.find("__global__");
  if (start == std::string::npos) return {};
  const std::string head = source.substr(start, 200);
  std::smatch found;
  const std::regex name(R"(__global__\s+void\s+(?:__\w+__\s*\([^)]*\)\s*)*(\w+)\s*\()");
  return std::regex_search(head, found, name) ? found[1].str() : std::string();
}

// The text in a namespace of its own, and a function that hands it the driver's array of pointers to arguments.
std::string host_of(const std::string &source, const std::string &file, const std::string &kernel) {
  std::string text = "#include <cuda_runtime.h>\n";
  // Before the namespace, so that the includes of a kernel have nothing left to declare inside of it.
  for (const char *header : {"cuda_fp16.h", "cuda_bf16.h", "mma.h"})
    if (source.find(std::string("<") + header + ">") != std::string::npos) text += std::string("#include <") + header + ">\n";
  text += "#include <utility>\nnamespace kernel { EMULATE_SHARED\n#include \"" + file + "\"\n}\n";
  text += R"(
template <class... A, size_t... I> void call(void (*kernel)(A...), void **arguments, std::index_sequence<I...>) {
  kernel(*static_cast<std::remove_cvref_t<A> *>(arguments[I])...);
}
template <class... A> void call(void (*kernel)(A...), void **arguments) {
  call(kernel, arguments, std::index_sequence_for<A...>());
}
)";
  text += "extern \"C\" __attribute__((visibility(\"default\"))) void standin_" + kernel + "(void **arguments) {\n";
  return text + "  call(kernel::" + kernel + ", arguments);\n}\n";
}

// Runs a program to its end; what it says goes to a file.
bool succeeds(const std::vector<std::string> &command, const std::string &log) {
  const pid_t child = fork();
  if (child == 0) {
    if (!freopen(log.c_str(), "w", stderr)) _exit(127);
    std::vector<char *> arguments;
    for (const std::string &part : command) arguments.push_back(const_cast<char *>(part.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

extern "C" {

int nvrtcVersion(int *major, int *minor) { return *major = 12, *minor = 9, Success; }

const char *nvrtcGetErrorString(int) { return "the stand-in's compiler fails"; }

int nvrtcCreateProgram(Program **program, const char *source, const char *, int, const char *const *, const char *const *) {
  return *program = new Program{source, {}, {}}, Success;
}

int nvrtcDestroyProgram(Program **program) {
  delete *program;
  return *program = nullptr, Success;
}

int nvrtcCompileProgram(Program *program, int count, const char *const *options) {
  const char *home = getenv("CUDA_PATH");
  std::string include;
  for (int i = 0; i < count && include.empty(); i++) {
    const std::string option = options[i], name = "--include-path=";
    if (option.compare(0, name.size(), name) == 0) include = option.substr(name.size());
  }
  if (!home || include.empty()) return InvalidInput;
  const std::string kernel = kernel_of(program->source);
  if (kernel.empty()) return program->log = "the text has no kernel", Compilation;
  const std::string folder = std::string(home) + "/kernels";
  mkdir(folder.c_str(), 0755);
  char stem[32];
  snprintf(stem, sizeof stem, "%016zx", std::hash<std::string>()(program->source));
  const std::string path = folder + "/" + stem, object = path + ".so";
  if (access(object.c_str(), R_OK) != 0) {
    // Another process may compile the same: a rename leaves no half of a file.
    const std::string own = path + "-" + std::to_string(getpid());
    std::ofstream(own + ".cu") << program->source;
    std::ofstream(own + ".cpp") << host_of(program->source, own + ".cu", kernel);
    std::vector<std::string> command = {"g++", "-std=c++20", "-O1", "-g1", "-fPIC", "-shared", "-fvisibility=hidden",
                                        "-fno-strict-aliasing", "-ffp-contract=off", "-w"};
#if defined(__x86_64__)
    // Without it, every fma is a call.
    command.push_back("-march=native");
#endif
    command.insert(command.end(), {"-I", include, own + ".cpp", std::string(home) + "/lib/libcuda.so.1", "-o", own + ".so"});
    if (!succeeds(command, own + ".log")) return program->log = read(own + ".log"), Compilation;
    if (rename((own + ".so").c_str(), object.c_str()) != 0) return program->log = "cannot write " + object, Compilation;
  }
  program->object = object;
  return Success;
}

int nvrtcGetProgramLogSize(Program *program, size_t *bytes) { return *bytes = program->log.size() + 1, Success; }
int nvrtcGetProgramLog(Program *program, char *log) { return strcpy(log, program->log.c_str()), Success; }
int nvrtcGetPTXSize(Program *program, size_t *bytes) { return *bytes = program->object.size() + 1, Success; }
int nvrtcGetPTX(Program *program, char *ptx) { return strcpy(ptx, program->object.c_str()), Success; }

}  // extern "C"
