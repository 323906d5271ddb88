//! Every entry point of every model lowers.

use compiler::lower::{Entry, Options, lower};

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

#[test]
fn all_models_lower() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
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
                    let start = std::time::Instant::now();
                    match lower(model, entry, Options { observe: true, ..Options::default() }) {
                        Ok(program) => {
                            let nodes: usize = program.counts().values().sum();
                            println!(
                                "{name} {} {}: {nodes} nodes, {:?} {:?}",
                                model.name,
                                entry.name(),
                                program.counts().get("scan"),
                                start.elapsed()
                            );
                        }
                        Err(error) => println!("{name} {} {}: {error} {:?}", model.name, entry.name(), error),
                    }
                }
            }
        }
    }
}
