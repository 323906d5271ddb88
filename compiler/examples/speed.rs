use std::time::Instant;

use wmc_compiler::backend::cpu::{self, Instance};
use wmc_compiler::kernel::fuse::{Level, fuse};
use wmc_compiler::lower::{Entry, Options, lower};
use wmc_compiler::run::{Call, Tensor, Tensors, arrays};
use wmc_compiler::simplify::simplify;

struct Folder(std::path::PathBuf);

impl dsl::Loader for Folder {
    fn load(&self, module: &str) -> Result<dsl::Loaded, dsl::LoadError> {
        let path = self.0.join(format!("{module}.wm"));
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(dsl::Loaded { name: format!("{module}.wm"), text }),
            Err(_) => Err(dsl::LoadError::NotFound { known: Vec::new() }),
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let path = std::path::Path::new(&args[1]);
    let entry = Entry::ALL.into_iter().find(|e| e.name() == args[2]).unwrap();
    let level = Level::ALL.into_iter().find(|e| e.name() == args[3]).unwrap();
    let batch: usize = args[4].parse().unwrap();
    let threads: usize = args[5].parse().unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    let t = Instant::now();
    let options = dsl::Options { dims: vec![("O".into(), 17), ("A".into(), 6)], ..dsl::Options::default() };
    let checked = dsl::check(&args[1], &text, &Folder(path.parent().unwrap().to_path_buf()), &options);
    let model = &checked.models[0];
    let t1 = t.elapsed();
    let program = lower(model, entry, Options { batch: Some(batch), ..Options::default() }).unwrap();
    let t2 = t.elapsed();
    let program = simplify(program);
    let t3 = t.elapsed();
    let kernels = fuse(&program, &cpu::TARGET, level).unwrap();
    let t4 = t.elapsed();
    if let Some(out) = args.get(6) {
        std::fs::write(out, wmc_compiler::kernel::text::print(&kernels)).unwrap();
    }
    let mut instance = Instance::new(&kernels, threads).unwrap();
    println!(
        "check {t1:?} lower {:?} simplify {:?} fuse {:?} instance {:?}; {} bytes",
        t2 - t1,
        t3 - t2,
        t4 - t3,
        t.elapsed() - t4,
        instance.bytes()
    );
    let call = Call { entry, batch: Some(batch), ..Call::default() };
    let mut given = Tensors::new();
    for i in &program.inputs {
        if matches!(i.role, wmc_compiler::ir::Role::Data | wmc_compiler::ir::Role::Record) {
            let shape: Vec<usize> = i.axes.iter().map(|a| program.size(*a)).collect();
            let n = shape.iter().product::<usize>();
            let data =
                (0..n).map(|k| if i.name.contains("first") { 0.0 } else { ((k * 7919) % 1000) as f64 / 1000.0 - 0.5 }).collect();
            given.insert(i.name.clone(), Tensor { shape, data });
        }
    }
    let (inputs, _) = arrays::<f32>(model, &call, &program, &given).unwrap();
    for (i, a) in inputs.iter().enumerate() {
        instance.input_mut(i).copy_from_slice(&a.data);
    }
    instance.prepare();
    // On a shared machine the time on the processor says more than the clock; of this thread alone.
    let busy = || {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e6
    };
    let mut times = Vec::new();
    let mut busy_times = Vec::new();
    for s in 0..15 {
        let t = Instant::now();
        let b = busy();
        if entry == Entry::TrainStep {
            instance.prepare();
        }
        instance.run(0, s);
        times.push(t.elapsed().as_secs_f64() * 1e3);
        busy_times.push(busy() - b);
    }
    times.sort_by(f64::total_cmp);
    busy_times.sort_by(f64::total_cmp);
    println!(
        "{} {} {}: median {:.2} ms, best {:.2}; busy median {:.2}, best {:.2}; first output {:?}",
        model.name,
        entry.name(),
        level.name(),
        times[7],
        times[0],
        busy_times[7],
        busy_times[0],
        &instance.output(0)[..1]
    );
}
