// Plans with a trained run from C.
//
//     cargo build --release -p wmc-plan
//     cc -I runtime/c/include examples/plan.c target/release/libwmc_plan.so -o plan
//     LD_LIBRARY_PATH=target/release ./plan runs/mine 0.6 -0.8 0.5
//
// The numbers are an observation. It prints the action, one number a line.
#include <stdio.h>
#include <stdlib.h>

#include "wmc_plan.h"

int main(int argc, char **argv) {
  char error[256];
  if (argc < 2) {
    fprintf(stderr, "name the folder of a run, then the numbers of an observation\n");
    return 2;
  }
  WmPolicy *policy = wm_load(argv[1], "cpu", error, sizeof error);
  if (!policy) {
    fprintf(stderr, "%s\n", error);
    return 1;
  }
  size_t seen = (size_t)argc - 2, acts = wm_action_size(policy);
  double *observation = malloc((seen + 1) * sizeof *observation), *action = malloc(acts * sizeof *action);
  for (size_t i = 0; i < seen; i++) observation[i] = atof(argv[i + 2]);
  // An observation of another size is an error, too.
  int failed = wm_plan(policy, observation, seen, action, acts, error, sizeof error);
  if (failed) fprintf(stderr, "%s\n", error);
  for (size_t i = 0; i < acts && !failed; i++) printf("%.17g\n", action[i]);
  free(observation);
  free(action);
  wm_free(policy);
  return failed;
}
