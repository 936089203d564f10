//! `leaderwatch completions` and `leaderwatch man`: what a shell and `man` know of the command.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;

use super::{Verdict, complain};

/// Prints what a shell needs to complete the command.
#[derive(Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Prints the manual page, or writes one for each subcommand.
#[derive(Args)]
pub struct ManArgs {
    /// Write `leaderwatch.1`, `leaderwatch-log.1` and so on into this folder instead, which is made where it is not there
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

/// Runs `leaderwatch completions`.
pub fn completions(args: &CompletionsArgs, mut command: clap::Command) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "leaderwatch", &mut script);
    print(&script)
}

/// Runs `leaderwatch man`.
pub fn man(args: &ManArgs, command: clap::Command) -> ExitCode {
    if let Some(folder) = &args.output {
        return match std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder)) {
            Ok(()) => Verdict::Done.into(),
            Err(error) => complain(Verdict::Misuse, format_args!("{}: {error}", folder.display())).into(),
        };
    }
    let mut page = Vec::new();
    match clap_mangen::Man::new(command).render(&mut page) {
        Ok(()) => print(&page),
        Err(error) => complain(Verdict::Misuse, error).into(),
    }
}

fn print(text: &[u8]) -> ExitCode {
    match io::stdout().lock().write_all(text) {
        Ok(()) => Verdict::Done.into(),
        // The reader has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Verdict::Done.into(),
        Err(error) => complain(Verdict::Misuse, format_args!("standard output: {error}")).into(),
    }
}
