//! The command `wmc`.

fn main() -> std::process::ExitCode {
    wmc::command(std::env::args_os())
}
