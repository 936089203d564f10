//! The command `leaderwatch`. Exit status: 0 done, 1 found something wrong, 2 called wrongly, or it cannot be done.
#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Tells people when the leadership of a Flink JobManager moves: reads its log, checks it, tries it out.
#[derive(Parser)]
#[command(name = "leaderwatch", version, max_term_width = 100)]
#[command(after_help = "Exit status: 0 done, 1 found something wrong, 2 called wrongly, or it cannot be done.")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Attach(cli::attach::AttachArgs),
    Check(cli::check::CheckArgs),
    Completions(cli::shell::CompletionsArgs),
    Install(cli::install::InstallArgs),
    Log(cli::log::LogArgs),
    Man(cli::shell::ManArgs),
    Pause(cli::pause::PauseArgs),
    Report(cli::report::ReportArgs),
    Status(cli::status::StatusArgs),
    Test(cli::test::TestArgs),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Attach(args) => cli::attach::run(&args),
        Command::Check(args) => cli::check::run(&args),
        Command::Completions(args) => cli::shell::completions(&args, Arguments::command()),
        Command::Install(args) => cli::install::run(&args),
        Command::Log(args) => cli::log::run(&args),
        Command::Man(args) => cli::shell::man(&args, Arguments::command()),
        Command::Pause(args) => cli::pause::run(&args),
        Command::Report(args) => cli::report::run(&args),
        Command::Status(args) => cli::status::run(&args),
        Command::Test(args) => cli::test::run(&args),
    }
}
