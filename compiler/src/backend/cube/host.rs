//! A host in C++ for an emitted CUDA program, to run it where there is no device: it launches everything in order, as the
//! runtime would, with numbers from a file. The emulator (`tests/emulate`) is what it is compiled with.
//!
//! The file that it reads has, for every draw, the two halves of its key and whether its numbers are given; then the
//! arenas of parameters and of inputs and outputs; all of 32 bits. The file that it writes has the outputs, one after the
//! other. From the second run on, outputs that update inputs have become them.

use std::fmt::Write;

use super::emitted::{Action, Arena, Emitted, EmittedKernel, Scalar};
use crate::interp::Clock;
use crate::random;

impl Emitted {
    /// The text of the host: `host INPUT OUTPUT [RUNS]`. Kernels are in namespaces of their names.
    pub fn host(&self) -> String {
        let mut text = String::from(
            "#include <cstdio>\n#include <cstdlib>\n#include <utility>\n#include <vector>\nstatic std::vector<uint32_t> keys;\nstatic float *arenas[4];\n",
        );
        let starts: Vec<String> = self.buffers.iter().map(|place| place.offset.to_string()).collect();
        let _ = writeln!(text, "static size_t starts[] = {{{}}};", starts.join(", "));
        for kernel in &self.kernels {
            launch(&mut text, kernel);
        }
        for (name, actions) in [("prepare", &self.prepare), ("steps", &self.steps), ("advance", &self.advance)] {
            let _ = writeln!(text, "static void {name}() {{");
            list(&mut text, actions, self);
            text += "}\n";
        }
        text += "template <class T> static void read(T *to, size_t count, FILE *file) {\n  if (fread(to, sizeof(T), count, file) != count) { fprintf(stderr, \"the input is too short\\n\"); exit(1); }\n}\n";
        text += "int main(int count, char **arguments) {\n";
        for (i, (arena, len)) in Arena::ALL.into_iter().zip(self.arenas).enumerate() {
            let bytes = 4 * len.max(4);
            let _ = writeln!(text, "  arenas[{i}] = static_cast<float *>(emulate::allocate(\"{}\", {bytes}));", arena.name());
        }
        text += "  FILE *in = fopen(arguments[1], \"rb\");\n";
        let _ = writeln!(text, "  keys.resize({});\n  read(keys.data(), keys.size(), in);", 3 * self.draws.len());
        for arena in [Arena::Parameters, Arena::Io] {
            let i = arena as usize;
            let _ = writeln!(text, "  read(arenas[{i}], {}, in);", self.arenas[i]);
        }
        text += "  fclose(in);\n  prepare();\n  steps();\n  for (int i = 1; i < (count > 3 ? atoi(arguments[3]) : 1); i++) {\n    advance();\n    prepare();\n    steps();\n  }\n";
        text += "  FILE *out = fopen(arguments[2], \"wb\");\n";
        for id in &self.outputs {
            let place = &self.buffers[id.0 as usize];
            let at = format!("arenas[{}] + starts[{}]", place.arena as usize, id.0);
            let _ = writeln!(text, "  fwrite({at}, 4, {}, out);", place.len);
        }
        text += "  fclose(out);\n  return emulate::finish();\n}\n";
        text
    }

    /// The file that the host reads. `given` has the numbers of draws that are not to be generated, by the draw's index.
    pub fn host_input(&self, inputs: &[Vec<f32>], given: &[Option<Vec<f32>>], clock: Clock) -> Vec<u8> {
        let mut bytes: Vec<u8> = Vec::new();
        let given = |d: usize| given.get(d).and_then(Option::as_ref);
        for (d, draw) in self.draws.iter().enumerate() {
            let key = random::key(&draw.name, clock.seed, &self.program, clock.step);
            let words = [key as u32, (key >> 32) as u32, u32::from(given(d).is_some())];
            words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        }
        let mut arenas = self.arenas.map(|len| vec![f32::NAN; len]);
        let constants = self.constants.iter().map(|(id, numbers)| (id, numbers));
        let draws =
            self.draws.iter().enumerate().flat_map(|(d, draw)| draw.to.iter().filter_map(move |to| Some((to, given(d)?))));
        for (id, numbers) in self.inputs.iter().zip(inputs).chain(constants).chain(draws) {
            let place = &self.buffers[id.0 as usize];
            arenas[place.arena as usize][place.offset..place.offset + place.len].copy_from_slice(numbers);
        }
        let numbers = arenas[Arena::Parameters as usize].iter().chain(&arenas[Arena::Io as usize]);
        numbers.for_each(|x| bytes.extend(x.to_le_bytes()));
        bytes
    }

    /// The outputs, from the file that the host has written.
    pub fn host_output(&self, bytes: &[u8]) -> Vec<Vec<f32>> {
        let mut numbers = bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b));
        self.outputs.iter().map(|id| numbers.by_ref().take(self.buffers[id.0 as usize].len).collect()).collect()
    }
}

fn launch(text: &mut String, kernel: &EmittedKernel) {
    let EmittedKernel { name, cube_dim, cube_count, shared_bytes, bindings, scalars, .. } = kernel;
    let loops: Vec<String> = scalars
        .iter()
        .filter_map(|scalar| match scalar {
            Scalar::Loop(id) => Some(format!("uint32_t loop_{}", id.0)),
            _ => None,
        })
        .collect();
    let _ = writeln!(text, "static void launch_{name}({}) {{", loops.join(", "));
    let _ = writeln!(text, "  {name}::info_st info{{}};");
    for (i, scalar) in scalars.iter().enumerate() {
        let value = match scalar {
            Scalar::Loop(id) => format!("loop_{}", id.0),
            Scalar::Offset(id) => format!("uint32_t(starts[{}])", id.0),
            Scalar::Key { draw, half } => format!("keys[{}]", 3 * draw + half),
            Scalar::Given { draw } => format!("keys[{}]", 3 * draw + 2),
        };
        let _ = writeln!(text, "  info.scalars_uint32[{i}] = {value};");
    }
    let arguments: Vec<String> = bindings
        .iter()
        .map(|binding| match binding.vector {
            1 => format!("arenas[{}]", binding.arena as usize),
            n => format!("reinterpret_cast<{name}::float_{n} *>(arenas[{}])", binding.arena as usize),
        })
        .collect();
    let shape = format!("{{\"{name}\", dim3({cube_count}), dim3({cube_dim}), {shared_bytes}}}");
    let _ = writeln!(text, "  emulate::launch({shape}, [&] {{ {name}::{name}({}, info); }});\n}}", arguments.join(", "));
}

fn list(text: &mut String, actions: &[Action], emitted: &Emitted) {
    for action in actions {
        match action {
            Action::Launch(i) => {
                let kernel = &emitted.kernels[*i];
                let loops = kernel.scalars.iter().filter_map(|scalar| match scalar {
                    Scalar::Loop(id) => Some(format!("loop_{}", id.0)),
                    _ => None,
                });
                let _ = writeln!(text, "  launch_{}({});", kernel.name, loops.collect::<Vec<_>>().join(", "));
            }
            Action::Loop { id, count, reverse, body } => {
                let (i, loop_id) = (format!("i_{}", id.0), format!("loop_{}", id.0));
                let step = if *reverse { format!("{count} - 1 - {i}") } else { i.clone() };
                let _ = writeln!(text, "  for (uint32_t {i} = 0; {i} < {count}; {i}++) {{\n  uint32_t {loop_id} = {step};");
                list(text, body, emitted);
                text.push_str("  }\n");
            }
            Action::Swap(a, b) => {
                let _ = writeln!(text, "  std::swap(starts[{}], starts[{}]);", a.0, b.0);
            }
        }
    }
}
