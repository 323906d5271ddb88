//! Where the command writes, and the exit codes it ends with.
//!
//! A reader that goes away (`wmc show .. | head`) is no error: the rest of the output is dropped and the command
//! ends with the exit code it would have had. Any other failure to write is reported and ends in [`Exit::Bad`].

use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;

/// The exit codes, mildest first: the worst of several files is the command's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// All is well.
    Fine,
    /// The question was understood and the answer is no.
    No,
    /// Bad input or bad usage.
    Bad,
    /// Stopped by a signal, after what there was to save had been saved: the code that shells give to an interrupted command.
    Stopped = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Both streams and whether they may carry colours.
pub(crate) struct Output {
    stdout: Stream,
    stderr: Stream,
}

struct Stream {
    to: Box<dyn Write>,
    colour: bool,
    /// Nobody reads it any more, or it cannot be written.
    closed: bool,
    failure: Option<io::Error>,
}

impl Output {
    pub(crate) fn standard() -> Output {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let (colour_out, colour_err) = (colour(stdout.is_terminal()), colour(stderr.is_terminal()));
        Output {
            stdout: Stream::new(Box::new(BufWriter::new(stdout)), colour_out),
            stderr: Stream::new(Box::new(stderr), colour_err),
        }
    }

    /// Writes to standard output: what was asked for.
    pub(crate) fn say(&mut self, text: impl AsRef<str>) {
        self.stdout.write(text.as_ref());
    }

    /// Writes to standard error: what there is to tell about it, behind all that was said before.
    pub(crate) fn tell(&mut self, text: impl AsRef<str>) {
        self.stdout.flush();
        self.stderr.write(text.as_ref());
    }

    /// Hands on what was said: somebody waits for it.
    pub(crate) fn flush(&mut self) {
        self.stdout.flush();
    }

    /// An error that belongs to no place in a text. A message may start with its code: `[E0701] ..`.
    pub(crate) fn error(&mut self, message: &str, help: &str) {
        let (code, message) = match message.strip_prefix("[E").and_then(|rest| rest.split_once("] ")) {
            Some((number, rest)) => (format!("[E{number}]"), rest),
            None => (String::new(), message),
        };
        let text = if self.stderr.colour {
            format!("\x1b[1;31merror{code}\x1b[0m\x1b[1m: {message}\x1b[0m\n  = help: {help}\n")
        } else {
            format!("error{code}: {message}\n  = help: {help}\n")
        };
        self.tell(text);
    }

    pub(crate) fn colour_out(&self) -> bool {
        self.stdout.colour
    }

    pub(crate) fn colour_err(&self) -> bool {
        self.stderr.colour
    }

    /// Flushes, and turns an output that could not be written into its exit code.
    pub(crate) fn finish(mut self, exit: Exit) -> Exit {
        self.stdout.flush();
        match self.stdout.failure.take() {
            Some(failure) => {
                self.error(&format!("cannot write the output: {failure}"), "free some space, or write elsewhere");
                Exit::Bad
            }
            None => exit,
        }
    }
}

impl Stream {
    fn new(to: Box<dyn Write>, colour: bool) -> Stream {
        Stream { to, colour, closed: false, failure: None }
    }

    fn write(&mut self, text: &str) {
        self.attempt(|to| to.write_all(text.as_bytes()));
    }

    fn flush(&mut self) {
        self.attempt(|to| to.flush());
    }

    fn attempt(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        if self.closed {
            return;
        }
        if let Err(error) = write(&mut self.to) {
            self.closed = true;
            if error.kind() != io::ErrorKind::BrokenPipe {
                self.failure = Some(error);
            }
        }
    }
}

/// Colours only for a terminal that has them, and only where `NO_COLOR` is unset (or empty).
fn colour(terminal: bool) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    terminal && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

#[cfg(test)]
impl Output {
    /// Both streams into nothing, without colours.
    pub(crate) fn nowhere() -> Output {
        Output { stdout: Stream::new(Box::new(io::sink()), false), stderr: Stream::new(Box::new(io::sink()), false) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Failing(io::ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn ends(kind: io::ErrorKind, exit: Exit) -> Exit {
        let mut out = Output::nowhere();
        out.stdout = Stream::new(Box::new(Failing(kind)), false);
        out.say("text");
        out.say("more");
        out.finish(exit)
    }

    #[test]
    fn a_reader_that_left_changes_no_exit_code() {
        assert_eq!(ends(io::ErrorKind::BrokenPipe, Exit::Fine), Exit::Fine);
        assert_eq!(ends(io::ErrorKind::BrokenPipe, Exit::No), Exit::No);
    }

    #[test]
    fn a_full_disk_is_bad() {
        assert_eq!(ends(io::ErrorKind::StorageFull, Exit::Fine), Exit::Bad);
    }
}
