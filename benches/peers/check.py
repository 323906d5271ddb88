"""Compares the peers in double precision with the goldens: `check.py [torch] [jax]`.

For the published model these are the authors' numbers for three tasks: losses, all gradients, two updates, two searches
and two decisions. Prints the largest differences, relative to the largest entry of a tensor, and exits with 1 if one is
above 1e-9.
"""
import importlib
import sys
from functools import partial

import hamworld_s6_spec as S6
import hamworld_spec as M
import numpy as np
import spec as S
from safetensors.numpy import load_file

BOUND = 1e-9
CARTPOLE = M.Search(horizon=4, iterations=4, random=48, elites=8, temperature=0.8, std=0.7, std_prior=0.2)
TASKS = dict(cheetah=M.Search(), reacher=M.Search(), cartpole=CARTPOLE)
UPDATES = dict(train_20000=0.2, train_45000=0.45, train_100000=1.0, train_nosmall=1.0, train_clip=0.45,
               train_explode=0.45)
STEEPER = dict(train_clip=16.0, train_explode=128.0)
EXPLORATION = dict(cheetah=0.6, reacher=0.6, cartpole=0.4)
# The authors' names of our losses, if they differ.
LOSSES = {"value.ce": "value_ce", "value.slow": "value_slow", "policy": "policy_prior", "ham": "hamiltonian"}
# The losses depend on differences of the energy only, so its last bias has no gradient.
FREE = "param.energy.2.bias"


class Torch:
    def __init__(self):
        import torch
        self.layers, self.torch = importlib.import_module("layers_torch"), torch
        self.tensors = partial(self.layers.tensors, dtype=torch.float64)
        self.numpy = lambda x: np.asarray(x.detach() if isinstance(x, torch.Tensor) else x)

    def model(self, file):
        return importlib.import_module(file + "_torch")

    def planner(self, model, *inputs, **settings):
        return model.planner(*inputs, lambda f: f, **settings)

    def rounds(self, found):
        return found

    def gradients(self, losses, params, slow, batch):
        p = {k: v.clone().requires_grad_(not k.startswith(slow)) for k, v in params.items()}
        total, parts = losses(p, batch)
        total.backward()
        zero = self.torch.zeros(1)
        grads = {k: zero if v.grad is None else v.grad for k, v in p.items() if v.requires_grad}
        return {**parts, "total": total}, grads


class Jax:
    def __init__(self):
        import jax
        jax.config.update("jax_enable_x64", True)
        # Compiling all cases takes ten minutes. `wmc bench` compares the compiled ones.
        jax.config.update("jax_disable_jit", True)
        self.layers, self.jax = importlib.import_module("layers_jax"), jax
        self.tensors = partial(self.layers.tensors, dtype=jax.numpy.float64)
        self.numpy = np.asarray

    def model(self, file):
        return importlib.import_module(file + "_jax")

    def planner(self, model, *inputs, **settings):
        return model.planner(*inputs, **settings)

    def rounds(self, found):
        return list(zip(*found))

    def gradients(self, losses, params, slow, batch):
        copies = {k: v for k, v in params.items() if k.startswith(slow)}
        w = {k: v for k, v in params.items() if k not in copies}
        (total, parts), g = self.jax.value_and_grad(lambda w: losses({**w, **copies}, batch), has_aux=True)(w)
        return {**parts, "total": total}, g


class Check:
    def __init__(self, framework):
        self.of, self.worst = framework, {}

    def close(self, what, have, want):
        have, want = np.ravel(self.of.numpy(have)), np.ravel(want)
        assert have.shape == want.shape, (what, have.shape, want.shape)
        self.note(what, np.abs(have - want).max() / max(np.abs(want).max(), 1e-300))

    def summary(self, what, have, want):
        """19 numbers of a tensor, relative to its length: sum, length, sum weighted by cos(i), first 16 entries."""
        f = np.ravel(self.of.numpy(have))
        head = np.pad(f[:16], (0, max(16 - len(f), 0)))
        have = np.array([f.sum(), np.sqrt((f * f).sum()), (f * np.cos(np.arange(len(f)))).sum(), *head])
        self.note(what, np.abs(have - want).max() / max(want[1], 1e-300))

    def note(self, what, apart):
        self.worst[what] = max(self.worst.get(what, 0.0), float(apart))

    # -------------------------------------------------------------------------- the published model
    def update(self, task, name):
        model, progress, golden = self.of.model("hamworld"), UPDATES[name], M.golden(f"{name}_f64", task)
        params = M.params(task)
        params["param.energy.2.weight"] = params["param.energy.2.weight"] * STEEPER.get(name, 1.0)
        params, b = self.of.tensors(params), M.golden("batch_f32", task)
        batch = {"data.obs": b["observations_far" if name == "train_clip" else "observations"],
                 "data.a": b["actions_nosmall" if name == "train_nosmall" else "actions"],
                 "data.r": b["rewards"][..., 0], "data.discount": b["discounts"][..., 0]}
        batch = self.of.tensors(batch)
        losses = partial(model.losses, alpha=M.alpha(progress), weights=M.weights(progress))
        values, grads = self.of.gradients(losses, params, M.SLOW[0], batch)
        for name, value in values.items():
            self.close("losses", value, golden["total" if name == "total" else f"loss.{LOSSES.get(name, name)}_loss"])
        full = M.golden("grads_45000_f64", task) if name == "train_45000" and task != "cartpole" else {}
        for ours in (k for k in grads if k != FREE):
            self.summary("gradients", grads[ours], golden[f"gradsum.{M.NAMES[ours]}"])
            if full:
                self.close("gradients", grads[ours], full[f"grad.{M.NAMES[ours]}"])
        norm = np.sqrt(sum((self.of.numpy(g) ** 2).sum() for g in grads.values()))
        self.note("gradients", abs(norm / golden["grad_norm"][0] - 1))
        # Cartpole's learning rate falls from 30 % of the training on.
        lr = S.LR * M.ramp(1.0, 0.1, 0.3, 1.0, progress) if task == "cartpole" else S.LR
        trainer = self.of.layers.Trainer(params, losses, M.SLOW, M.DECAY, lr)
        for step in (1, 2):
            total = trainer.step(batch)
            for ours, their in M.NAMES.items():
                if f"step{step}.{their}" in golden:
                    self.summary(f"update {step}", trainer.p[ours], golden[f"step{step}.{their}"])
            if step == 2 and "total_second" in golden:
                self.close("update 2", total, golden["total_second"])

    def search(self, task, golden, name, obs, start):
        """A search from a golden's memory and a start mean -> latent, memory, rounds."""
        p = self.of.layers.joined(self.of.tensors(M.params(task)), M.JOINED)
        noise = np.concatenate([golden[f"{name}.noise_random"], golden[f"{name}.noise_policy"]], 1)
        d = self.of.tensors(dict(obs=obs, mean=start, noise=noise))
        states = list(self.of.tensors({l: golden[f"{name}.memory_state"][:, l] for l in range(M.LAYERS)}).values())
        model, by = self.of.model("hamworld"), TASKS[task]
        z = model.encode(p, "param.encoder", d["obs"][None])
        rounds = self.of.layers.search(partial(model.search_round, by=by), by.std, p, z, states, d["mean"], d["noise"])
        return z, states, self.of.rounds(rounds)

    def searches(self, task):
        golden, model, by = M.golden("plan_f64", task), self.of.model("hamworld"), TASKS[task]
        obs = M.golden("batch_f32", task)["observations"]
        _, _, first = self.search(task, golden, "first", obs[0, 0], golden["first.start_mean"])
        # The case `plan`.
        inputs = self.of.tensors(M.params(task)), self.of.tensors(M.decision(task))
        warm, _ = self.of.planner(model, *inputs, by=by)()
        for name, rounds in (("first", first), ("warm", self.of.rounds(warm))):
            for i, (mean, std, score) in enumerate(rounds):
                self.close("searches", mean, golden[f"{name}.mean"][i])
                self.close("searches", std, golden[f"{name}.std"][i])
                self.close("searches", score, golden[f"{name}.values"][i])
            self.close("searches", rounds[-1][0][0], golden[f"{name}.action"])

    def decisions(self, task):
        """Two decisions, each from the golden state before it."""
        golden, model = M.golden("act_f64", task), self.of.model("hamworld")
        p = self.of.layers.joined(self.of.tensors(M.params(task)), M.JOINED)
        for n in (1, 2):
            obs, start = golden[f"{n}.observation"], golden[f"{n - 1}.next_init_mean"]
            z, states, rounds = self.search(task, golden, str(n), obs, start)
            mean = self.of.numpy(rounds[-1][0])
            self.close("decisions", np.append(mean[1:], 0 * mean[:1], 0), golden[f"{n}.next_init_mean"])
            noise = np.float64(golden.get(f"{n}.noise_exploration", 0.0))
            action = np.clip(mean[0] + EXPLORATION[task] * noise, -1, 1)
            self.close("decisions", action, golden[f"{n}.action"])
            if n == 1:
                za = self.of.tensors(dict(za=np.append(self.of.numpy(z)[0], action)[None]))["za"]
                for layer, state in enumerate(model.memory_step(p, za, states)[1]):
                    self.close("decisions", state, golden["2.memory_state"][:, layer])

    # -------------------------------------------------------------------------- the paper taken literally
    def literal(self):
        golden = load_file(S6.GOLDEN / "outputs_f64.safetensors") | load_file(S6.GOLDEN / "grads_f64.safetensors")
        model, states = self.of.model("hamworld_s6"), 16
        params, batch = self.of.tensors(S6.params(states)), self.of.tensors(S6.batch(size=4))
        values, grads = self.of.gradients(model.losses, params, S6.SLOW[0], batch)
        for name, value in values.items():
            self.close("losses", value, golden[f"loss.{name}"])
        for name in (n for n in grads if n != "H.2.bias"):
            self.close("gradients", grads[name], golden[f"grad.{name}"])
        trainer = self.of.layers.Trainer(params, model.losses, S6.SLOW, S6.DECAY)
        trainer.step(batch)
        for name, want in load_file(S6.GOLDEN / "step1_f64.safetensors").items():
            self.close("update 1", trainer.p[name.removeprefix("step1.")], want)
        rounds, _ = self.of.planner(model, params, self.of.tensors(S6.decision(states)))()
        for i, (mean, std, score) in enumerate(self.of.rounds(rounds)):
            self.close("searches", mean, golden["plan.mu"][i])
            self.close("searches", std, golden["plan.std"][i])
            self.close("searches", score, golden["plan.score"][i])


def main():
    failed = False
    for name in sys.argv[1:] or ["torch", "jax"]:
        of = dict(torch=Torch, jax=Jax)[name]()
        for task in [*TASKS, "literal"]:
            check = Check(of)
            if task == "literal":
                check.literal()
            else:
                for update in UPDATES:
                    if (M.GOLDEN / f"published_{task}" / f"{update}_f64.safetensors").exists():
                        check.update(task, update)
                check.searches(task)
                check.decisions(task)
            worst = "  ".join(f"{what} {apart:.1e}" for what, apart in check.worst.items())
            print(f"{name:6}{task:10}{worst}", flush=True)
            failed |= any(not apart <= BOUND for apart in check.worst.values())
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
