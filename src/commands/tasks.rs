//! `wmc tasks`: the list of tasks, and the installation of MuJoCo.

use runtime::tasks::mujoco::install;
use runtime::tasks::suite::TASKS;

use crate::cli::{Tasks, TasksCommand};
use crate::output::{Exit, Output};

pub(crate) fn run(arguments: &Tasks, out: &mut Output) -> Exit {
    match arguments.command {
        None | Some(TasksCommand::List) => {
            let mujoco = install::installed().is_ok();
            out.say(format!("{:18}  {:9}  MuJoCo\n", "task", "embedded"));
            for task in TASKS {
                let through = match (task.mujoco, mujoco) {
                    (false, _) => "-",
                    (true, true) => "installed",
                    (true, false) => "`wmc tasks install`",
                };
                out.say(format!("{:18}  {:9}  {through}\n", task.name, if task.embedded { "yes" } else { "-" }));
            }
            Exit::Fine
        }
        Some(TasksCommand::Install) => match install::install(|step| out.tell(format!("{step}\n"))) {
            Ok(_) => Exit::Fine,
            Err(error) => {
                out.error(&error.to_string(), "the embedded tasks need no installation: `wmc tasks` lists them");
                Exit::Bad
            }
        },
    }
}
