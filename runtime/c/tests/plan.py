"""Plans with the run in argv[2] through the library in argv[1], and prints two actions and the first of a new episode; a model that asks
for a reward is told one."""

import ctypes
import sys

wmc = ctypes.CDLL(sys.argv[1])
wmc.wm_load.restype = ctypes.c_void_p
wmc.wm_load.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
doubles = ctypes.POINTER(ctypes.c_double)
wmc.wm_plan.argtypes = [ctypes.c_void_p, doubles, ctypes.c_size_t, doubles, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
wmc.wm_outcome.argtypes = [ctypes.c_void_p, ctypes.c_double, ctypes.c_bool, ctypes.c_char_p, ctypes.c_size_t]
wmc.wm_needs_outcome.argtypes = [ctypes.c_void_p]
wmc.wm_needs_outcome.restype = ctypes.c_bool
wmc.wm_reset.argtypes = [ctypes.c_void_p]
wmc.wm_free.argtypes = [ctypes.c_void_p]

error = ctypes.create_string_buffer(256)
policy = wmc.wm_load(sys.argv[2].encode(), b"cpu", error, len(error))
if not policy:
    sys.exit(error.value.decode())
seen, action = (ctypes.c_double * 3)(0.6, -0.8, 0.5), (ctypes.c_double * 1)()
for step in range(3):
    if step == 2 and wmc.wm_reset(policy):
        sys.exit("cannot forget")
    if step == 1 and wmc.wm_needs_outcome(policy) and wmc.wm_outcome(policy, 0.75, False, error, len(error)):
        sys.exit(error.value.decode())
    if wmc.wm_plan(policy, seen, 3, action, 1, error, len(error)):
        sys.exit(error.value.decode())
    print(repr(action[0]))
wmc.wm_free(policy)
