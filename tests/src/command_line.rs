//! How the programs of the scripts begin and end: usage, complaints, exit status.

use std::process::ExitCode;

use anyhow::Result;

/// Runs a script's program with what was parsed of its arguments; `Ok(None)` asks for the usage. Exit status 0: all is
/// well; 1: it is not, or the run failed; 2: it was called wrongly.
pub fn run<Options>(
    script: &str,
    usage: &str,
    parsed: Result<Option<Options>>,
    run: impl FnOnce(&Options) -> Result<bool>,
) -> ExitCode {
    let options = match parsed {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{usage}");
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprint!("{script}: {problem:#}\n\n{usage}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{script}: {problem:#}");
            ExitCode::FAILURE
        }
    }
}
