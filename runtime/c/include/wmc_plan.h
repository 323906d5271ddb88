// Plans of trained models. Made by cbindgen from runtime/c/src/lib.rs; `docs/embed/c.md` has an example.

#ifndef WMC_PLAN_H
#define WMC_PLAN_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// A trained model that acts.
typedef struct WmPolicy WmPolicy;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Loads the newest checkpoint of a run's folder. `device` is where it computes: "cpu", "cuda", "vulkan:1" or "auto"; null is
// the processor. Null, with a text in `error`, where that fails.
//
// # Safety
// `run` is a text that ends with a zero, as is `device` unless it is null; `error` is null or has room for `error_len` bytes.
struct WmPolicy *wm_load(const char *run,
                         const char *device,
                         char *error,
                         size_t error_len);

// Loads a compiled model (`wmc compile` writes it) and a checkpoint's folder of a training of the same model: neither needs
// the model's text. `device` is where it computes, one that it was compiled for; null is the processor. Null, with a text in
// `error`, where that fails.
//
// # Safety
// `artefact` and `checkpoint` are texts that end with a zero, as is `device` unless it is null; `error` is null or has room for
// `error_len` bytes.
struct WmPolicy *wm_load_artefact(const char *artefact,
                                  const char *checkpoint,
                                  uint64_t seed,
                                  const char *device,
                                  char *error,
                                  size_t error_len);

// The action for an observation, in -1..1; what was observed before counts. Zero, or one with a text in `error`: then the policy
// remembers what it did before the call.
//
// # Safety
// `policy` comes from `wm_load`; the arrays have as many numbers as is said; `error` is null or has room for `error_len` bytes.
int wm_plan(struct WmPolicy *policy,
            const double *observation,
            size_t observation_len,
            double *action,
            size_t action_len,
            char *error,
            size_t error_len);

// What followed from the last action: its reward, and whether it ended the episode for good (a time limit does not). Models that
// act on the reward of the step before must be told before the next `wm_plan`; others need not. Zero, or one with a text in
// `error`.
//
// # Safety
// `policy` comes from `wm_load`; `error` is null or has room for `error_len` bytes.
int wm_outcome(struct WmPolicy *policy,
               double reward,
               bool terminal,
               char *error,
               size_t error_len);

// Whether the model acts on the reward of the step before, which `wm_outcome` tells.
//
// # Safety
// `policy` comes from `wm_load`, or is null.
bool wm_needs_outcome(const struct WmPolicy *policy);

// Forgets what was observed: the next observation is an episode's first. Zero, or one where there is no policy or its device
// has failed.
//
// # Safety
// `policy` comes from `wm_load`, or is null.
int wm_reset(struct WmPolicy *policy);

// How many numbers an observation has.
//
// # Safety
// `policy` comes from `wm_load`, or is null.
size_t wm_observation_size(const struct WmPolicy *policy);

// How many numbers an action has.
//
// # Safety
// `policy` comes from `wm_load`, or is null.
size_t wm_action_size(const struct WmPolicy *policy);

// Frees a policy. Null is fine.
//
// # Safety
// `policy` comes from `wm_load` and is not used afterwards.
void wm_free(struct WmPolicy *policy);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* WMC_PLAN_H */
