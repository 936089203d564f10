//! `leaderwatch attach`: the agent into a JVM that runs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use leaderwatch_agent::attach::{Attached, LIBRARY_NAME, attach};

use super::{Verdict, complain};

/// Loads the agent into a Flink process that runs, without a restart and without a JDK. It stays until the process ends.
#[derive(Args)]
pub struct AttachArgs {
    /// Process id of the JobManager or TaskManager, as seen from here
    #[arg(value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    pid: u32,
    /// The agent's options: `key=value,...`
    #[arg(default_value = "", hide_default_value = true)]
    options: String,
    /// The library, by the path that the process sees; else that beside this command
    #[arg(long, value_name = "PATH")]
    library: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &AttachArgs) -> ExitCode {
    let library = match library(args.library.as_deref()) {
        Ok(library) => library,
        Err(message) => return complain(Verdict::Misuse, message).into(),
    };
    let pid = args.pid;
    match attach(pid, &library, &args.options) {
        Ok(Attached::Loaded) => {
            println!(
                "The agent is loaded into process {pid}; its alert log and `leaderwatch status` tell how it does. A JVM of \
                 version 21 or later has written a warning of this to Flink's .out."
            );
            Verdict::Done.into()
        }
        Ok(Attached::Already) => {
            println!("The agent is in process {pid} already; nothing was changed.");
            Verdict::Done.into()
        }
        Ok(Attached::GivenOptions) => {
            println!(
                "The agent is in process {pid} already. Within ten seconds it takes these options in place of those before, as \
                 a whole or not at all: its alert log says `agent.reconfigured`, or `agent.problem` and why not."
            );
            Verdict::Done.into()
        }
        Err(refusal) => complain(Verdict::Misuse, format_args!("process {pid}: {refusal}")).into(),
    }
}

/// The JVM has another working folder, so the path must be a whole one.
fn library(given: Option<&Path>) -> Result<PathBuf, String> {
    let beside = || Some(std::env::current_exe().ok()?.parent()?.join(LIBRARY_NAME));
    match given {
        Some(path) => std::path::absolute(path).map_err(|error| format!("--library: {}: {error}", path.display())),
        None => beside().ok_or_else(|| format!("give the path of {LIBRARY_NAME} with --library")),
    }
}
