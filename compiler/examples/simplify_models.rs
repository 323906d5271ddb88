use compiler::lower::{Entry, Options, lower};
use compiler::{ir, simplify};

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
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    for folder in ["../models", "../dsl/tests/wm"] {
        let folder = root.join(folder);
        let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().path()).collect();
        files.sort();
        for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "wm")) {
            let text = std::fs::read_to_string(file).unwrap();
            let name = file.file_name().unwrap().to_string_lossy().to_string();
            let dims = vec![("O".to_string(), 17), ("A".to_string(), 6)];
            let options = dsl::Options { dims, ..dsl::Options::default() };
            let checked = dsl::check(&name, &text, &Folder(folder.clone()), &options);
            for model in &checked.models {
                for entry in Entry::ALL {
                    let label = format!("{name}:{}:{}", model.name, entry.name());
                    if !wanted.is_empty() && !label.contains(&wanted[0]) { continue; }
                    match lower(model, entry, Options::default()) {
                        Ok(mut program) => {
                            if let Err(e) = ir::verify::verify(&program) {
                                println!("{label}: VERIFY {e}");
                                continue;
                            }
                            let text = ir::text::print(&program, None);
                            let back = ir::text::parse(&text).unwrap();
                            assert_eq!(ir::text::print(&back, None), text);
                            let n = |p: &ir::Program| p.counts().values().sum::<usize>();
                            let before = (n(&program), program.counts());
                            let mut again = program.clone();
                            let t = std::time::Instant::now();
                            simplify::simplify(&mut again);
                            println!("{label} TOTAL {:?}", t.elapsed());
                            let mut out = String::new();
                            let mut rounds = 0;
                            loop {
                                let old = program.clone();
                                for (pass, run) in simplify::PASSES {
                                    let t = std::time::Instant::now();
                                    if *pass == "rewrite" {
                                        let log = simplify::rewrite::rewrite_logged(&mut program);
                                        if wanted.len() > 1 && wanted[1] == "log" { println!("round {rounds}: {log:#?}"); }
                                    } else if *pass == "hoist" {
                                        let log = simplify::hoist_logged(&mut program);
                                        if wanted.len() > 1 && wanted[1] == "log" { println!("round {rounds}: {log:?}"); }
                                    } else {
                                        run(&mut program);
                                    }
                                    out += &format!("{pass} {:?} -> {}; ", t.elapsed(), n(&program));
                                    if let Err(e) = ir::verify::verify(&program) { println!("{label} after {pass} VERIFY {e}\n{}", ir::text::print(&program, None)); return; }
                                }
                                rounds += 1;
                                out += "\n";
                                if program == old || rounds > 14 { break; }
                            }
                            println!("{label}: {} -> {} nodes in {rounds} rounds", before.0, n(&program));
                            for key in ["scan", "dot"] {
                                println!("   {key}: {:?} -> {:?}", before.1.get(key), program.counts().get(key));
                            }
                            if wanted.len() > 1 { println!("{out}"); }
                            if wanted.len() > 1 && wanted[1] == "print" { println!("{}", ir::text::print(&program, Some(&checked.sources))); }
                        }
                        Err(error) => println!("{label}: {error}"),
                    }
                }
            }
        }
    }
}
