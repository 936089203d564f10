//! `leaderwatch install` on the configurations that real Flinks ship, those that `scripts/flink` has fetched.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// Homes of Flinks, or their configuration alone, with their versions.
fn homes() -> Vec<(String, PathBuf)> {
    let cache = std::env::var_os("LEADERWATCH_CACHE").map(PathBuf::from).unwrap_or_else(|| {
        PathBuf::from(std::env::var_os("HOME").expect("$HOME or $LEADERWATCH_CACHE is set")).join(".cache/leaderwatch")
    });
    let mut homes: Vec<(String, PathBuf)> = fs::read_dir(&cache)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let version = name.strip_prefix("flink-").or_else(|| name.strip_prefix("conf-"))?;
            entry.path().join("lib").is_dir().then(|| (version.to_owned(), entry.path()))
        })
        .collect();
    homes.sort();
    assert!(!homes.is_empty(), "no Flink in {}: run `scripts/flink fetch 2.3.0`", cache.display());
    homes
}

/// A home of the same jars, with scripts and configuration of its own.
fn copy_of(home: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for folder in ["bin", "conf", "lib"] {
        fs::create_dir(copy.path().join(folder)).unwrap();
        for file in fs::read_dir(home.join(folder)).unwrap().flatten() {
            let (from, to) = (file.path(), copy.path().join(folder).join(file.file_name()));
            // Flink's scripts look for jars that are no symbolic links.
            let is_linked = folder == "lib" && fs::hard_link(&from, &to).is_ok();
            if !is_linked {
                fs::copy(&from, &to).unwrap();
            }
        }
    }
    fs::create_dir(copy.path().join("log")).unwrap();
    fs::write(copy.path().join("library.so"), LIBRARY).unwrap();
    copy
}

/// What the head of a library for this machine says.
const LIBRARY: &[u8] = if cfg!(target_arch = "aarch64") {
    b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\xb7\0a library"
} else {
    b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0a library"
};

fn install(home: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leaderwatch"));
    command.arg("install").arg(home).args(more);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}: {output:?}", home.display());
    output
}

/// The files of a folder and what is in them.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut contents: Vec<_> =
        fs::read_dir(folder).unwrap().flatten().map(|file| (file.path(), fs::read(file.path()).unwrap())).collect();
    contents.sort();
    contents
}

/// What Flink's own start scripts make of the configuration: the options of JobManagers and of TaskManagers.
fn options_by_flink(home: &Path) -> Vec<String> {
    let script = home.join("bin/ask.sh");
    let text = "#!/usr/bin/env bash\n. \"$(dirname \"$0\")/config.sh\" > /dev/null\n\
                echo \"$FLINK_ENV_JAVA_OPTS_JM\"\necho \"$FLINK_ENV_JAVA_OPTS_TM\"\n";
    fs::write(&script, text).unwrap();
    let mut command = Command::new("bash");
    for variable in ["FLINK_CONF_DIR", "FLINK_ENV_JAVA_OPTS_JM", "FLINK_ENV_JAVA_OPTS_TM", "JAVA_TOOL_OPTIONS"] {
        command.env_remove(variable);
    }
    let output = command.arg(&script).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
#[ignore = "scripts/test classes"]
fn every_shipped_configuration_takes_the_option_and_gives_it_back_byte_for_byte() {
    for (version, home) in homes() {
        let copy = copy_of(&home);
        let (folder, library) = (copy.path(), copy.path().join("library.so"));
        let option = format!(
            "-agentpath:{0}/leaderwatch/libleaderwatch.so=config={0}/leaderwatch/leaderwatch.toml",
            folder.display()
        );
        let before = contents(&folder.join("conf"));
        let library = ["--library", library.to_str().unwrap()];
        install(folder, &[library[0], library[1], "--dry-run"]);
        assert_eq!(contents(&folder.join("conf")), before, "{version}");

        install(folder, &library);
        let installed = contents(&folder.join("conf"));
        let changed: Vec<_> = installed.iter().zip(&before).filter(|(after, before)| after != before).collect();
        let [((file, after), _)] = changed.as_slice() else { panic!("{version}: one file changes: {changed:?}") };
        assert_eq!(String::from_utf8_lossy(after).matches(&option).count(), 2, "{}", file.display());
        assert_eq!(fs::read(folder.join("leaderwatch/libleaderwatch.so")).unwrap(), LIBRARY);
        install(folder, &library);
        assert_eq!(contents(&folder.join("conf")), installed, "{version}: twice is once");
        // Where the jars are there, too, and not only their names.
        if fs::metadata(folder.join("bin/bash-java-utils.jar")).is_ok() {
            assert_eq!(options_by_flink(folder), [option.clone(), option], "{version}");
            println!("{version}: {} changed, read by Flink's own scripts, undone", file.display());
        } else {
            println!("{version}: {} changed, undone", file.display());
        }

        install(folder, &["--undo"]);
        assert_eq!(contents(&folder.join("conf")), before, "{version}");
        assert!(!folder.join("leaderwatch").exists(), "{version}");
    }
}
