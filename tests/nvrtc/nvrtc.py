#!/usr/bin/env python3
"""Compiles CUDA texts with NVRTC, on a machine without a GPU, and says what the assembler made of them.

    nvrtc.py install                        NVIDIA's compiler into the user's cache (140 MB, once)
    nvrtc.py check ARCH[,ARCH..] FILE.cu..  one JSON object a line for each file and architecture, as many at a time as there are
                                            processors

A line has file, arch, kernel, registers, spills (bytes stored and loaded), stack (bytes of local memory), ms (of the processor,
NVRTC with its assembler) and ptx_bytes; or file, arch and error. Budgets are the caller's. Exit code 1 if any text did not compile,
2 if the compiler is not there.
"""
import ctypes
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements.txt"


def cache() -> Path:
    """One folder for each list of versions."""
    version = re.search(r"nvrtc-cu12==(\S+)", REQUIREMENTS.read_text()).group(1)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "wmc" / f"nvrtc-{version}"


def install() -> None:
    target = cache()
    if (target / "complete").exists():
        return
    if platform.machine() != "x86_64" or sys.platform != "linux":
        raise SystemExit("nvrtc: the wheels that are listed are for Linux on x86-64")
    partial = target.with_name(f"{target.name}-{os.getpid()}")
    partial.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore", "--no-deps", "--require-hashes"]
    try:
        subprocess.run([*pip, "--target", str(partial), "-r", str(REQUIREMENTS)], check=True)
        (partial / "complete").touch()
        try:
            partial.rename(target)
        except OSError:
            # Another process was quicker.
            if not (target / "complete").exists():
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


class Nvrtc:
    def __init__(self) -> None:
        home = cache() / "nvidia"
        if not (cache() / "complete").exists():
            print(f"nvrtc: not installed; run `python3 {HERE / 'nvrtc.py'} install`", file=sys.stderr)
            raise SystemExit(2)
        lib = home / "cuda_nvrtc" / "lib"
        # NVRTC looks for its built-in headers by name.
        ctypes.CDLL(str(next(lib.glob("libnvrtc-builtins.so*"))), mode=ctypes.RTLD_GLOBAL)
        self.lib = ctypes.CDLL(str(lib / "libnvrtc.so.12"))
        self.lib.nvrtcGetErrorString.restype = ctypes.c_char_p
        self.includes = [home / part / "include" for part in ("cuda_runtime", "cuda_cccl", "cuda_nvcc")]

    def text(self, program: ctypes.c_void_p, what: str) -> str:
        size = ctypes.c_size_t()
        getattr(self.lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        getattr(self.lib, f"nvrtcGet{what}")(program, buffer)
        return buffer.value.decode(errors="replace")

    def compile(self, source: str, arch: str) -> dict:
        # As CubeCL does it: from 9.0 on with the features of that one architecture.
        exact = arch + ("a" if int(arch.removeprefix("sm_")) >= 90 else "")
        options = [f"--gpu-architecture={exact}", "--ptxas-options=-v", *(f"--include-path={i}" for i in self.includes)]
        given = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
        program = ctypes.c_void_p()
        start = time.process_time()
        self.lib.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
        result = self.lib.nvrtcCompileProgram(program, len(options), given)
        ms = (time.process_time() - start) * 1e3
        log = self.text(program, "ProgramLog")
        if result != 0:
            return {"error": f"{self.lib.nvrtcGetErrorString(result).decode()}: {log.strip()}"}
        return {**figures(log), "ms": round(ms), "ptx_bytes": len(self.text(program, "PTX"))}


def figures(log: str) -> dict:
    """What the assembler says of the one kernel in a text."""
    kernel = re.search(r"Compiling entry function '(\w+)'", log)
    stack = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log)
    registers = re.search(r"Used (\d+) registers", log)
    if not (kernel and stack and registers):
        return {"error": f"the assembler says nothing of its registers: {log.strip()}"}
    return {
        "kernel": kernel.group(1),
        "registers": int(registers.group(1)),
        "spills": int(stack.group(2)) + int(stack.group(3)),
        "stack": int(stack.group(1)),
    }


def one(job: tuple[str, str]) -> dict:
    """In a process of its own: threads would wait for each other."""
    global nvrtc
    nvrtc = globals().get("nvrtc") or Nvrtc()
    file, arch = job
    return {"file": file, "arch": arch, **nvrtc.compile(Path(file).read_text(), arch)}


def check(archs: list[str], files: list[str]) -> int:
    Nvrtc()
    jobs = [(file, arch) for file in files for arch in archs]
    # The longest first: nobody waits for one that was left for the end.
    order = sorted(range(len(jobs)), key=lambda i: -Path(jobs[i][0]).stat().st_size)
    with ProcessPoolExecutor(min(len(jobs), os.cpu_count() or 1)) as pool:
        done = dict(zip(order, pool.map(one, (jobs[i] for i in order))))
    results = [done[i] for i in range(len(jobs))]
    for result in results:
        print(json.dumps(result), flush=True)
    return 1 if any("error" in result for result in results) else 0


def main() -> int:
    match sys.argv[1:]:
        case ["install"]:
            install()
            return 0
        case ["check", archs, *files] if files:
            return check(archs.split(","), files)
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
