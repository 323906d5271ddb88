// Plans with the run in argv[1] on the device of WMC_DEVICE, or with the artefact in argv[2] and the checkpoint in argv[3]: prints two
// actions, tells a reward where the model asks for it, forgets, and prints the first action of a new episode.
#include <math.h>
#include <stdio.h>

#include "wmc_plan.h"

int main(int argc, char **argv) {
  char error[256] = "";
  if (argc < 2) return 2;
  WmPolicy *nothing = wm_load("/nowhere", 0, error, sizeof error);
  if (nothing || !error[0]) return 3;
  nothing = wm_load_artefact("/nowhere", argv[1], 7, "cpu", error, sizeof error);
  if (nothing || !error[0]) return 3;
  nothing = wm_load(argv[1], "abacus", error, sizeof error);
  if (nothing || !error[0]) return 3;
  const char *device = getenv("WMC_DEVICE");
  WmPolicy *policy = argc < 4 ? wm_load(argv[1], device, error, sizeof error)
                              : wm_load_artefact(argv[2], argv[3], 7, device, error, sizeof error);
  if (!policy) {
    fprintf(stderr, "%s\n", error);
    return 4;
  }
  double seen[3] = {0.6, -0.8, 0.5}, action[1];
  if (wm_observation_size(policy) != 3 || wm_action_size(policy) != 1) return 5;
  bool asks = wm_needs_outcome(policy);
  for (int i = 0; i < 2; i++) {
    if (asks && i > 0) {
      // Without its reward there is no second action.
      if (!wm_plan(policy, seen, 3, action, 1, error, sizeof error) || !error[0]) return 10;
      if (!wm_outcome(policy, NAN, false, error, sizeof error)) return 11;
      if (wm_outcome(policy, 0.75, false, error, sizeof error)) return 12;
    }
    if (wm_plan(policy, seen, 3, action, 1, error, sizeof error)) return 6;
    printf("%.17g\n", action[0]);
  }
  if (wm_plan(policy, seen, 2, action, 1, error, sizeof error) != 1 || !error[0]) return 7;
  if (wm_plan(policy, seen, 3, action, 4, error, sizeof error) != 1) return 8;
  double broken[3] = {0.6, NAN, 0.5};
  if (wm_plan(policy, broken, 3, action, 1, error, sizeof error) != 1) return 8;
  if (wm_reset(policy)) return 9;
  if (wm_plan(policy, seen, 3, action, 1, 0, 0)) return 9;
  printf("%.17g\n", action[0]);
  // Whoever is not asked may tell it all the same.
  if (wm_outcome(policy, 0.5, true, 0, 0)) return 13;
  if (!wm_outcome(0, 0.5, false, error, sizeof error) || wm_needs_outcome(0)) return 14;
  wm_free(policy);
  wm_free(0);
  return 0;
}
