//! `wmc doctor`: the devices and libraries of this machine, and how to install missing ones.

use runtime::doctor::{Finding, examine};

use crate::output::{Exit, Output};

pub(crate) fn run(out: &mut Output) -> Exit {
    for Finding { what, found, advice } in examine() {
        out.say(format!("{what:16}  {found}\n"));
        if let Some(advice) = advice {
            out.say(format!("{:16}    {advice}\n", ""));
        }
    }
    Exit::Fine
}
