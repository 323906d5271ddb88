//! A case as a worker of another harness: lines of JSON on standard output, numbers of calls on standard input.

use std::io::{BufRead, Write};

use compiler::backend::DeviceError;
use serde_json::json;

use super::ready::{First, Ready};

fn failed(error: DeviceError) -> std::io::Error {
    std::io::Error::other(error)
}

/// Says that it is ready, then times as many calls as each line asks for, until there are no more lines.
pub(crate) fn serve(mut ready: Ready, first: &First, asked: impl BufRead, mut told: impl Write) -> std::io::Result<()> {
    let second = ready.times(1).map_err(failed)?[0] / 1e3;
    let line = json!({
        "import_s": first.build,
        "first_call_s": first.call,
        "second_call_s": second,
        "value": first.value,
    });
    writeln!(told, "{line}")?;
    told.flush()?;
    for line in asked.lines() {
        let line = line?;
        let Ok(n) = line.trim().parse::<usize>() else {
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, format!("`{line}` is not a number of calls")));
        };
        writeln!(told, "{}", json!(ready.times(n).map_err(failed)?))?;
        told.flush()?;
    }
    Ok(())
}
