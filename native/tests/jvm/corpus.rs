//! The rewrite on real classes: every method that can take a call gets one; an independent reader looks at the result,
//! and JVMs verify and run it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use leaderwatch::bridge::CALLEE;
use leaderwatch::classfile;

use crate::oracle::{Candidate, assert_only_the_call_is_new, candidates};
use crate::support::*;

/// How a class came out of it.
#[derive(Default)]
struct Tally {
    classes: usize,
    methods: usize,
    refusals: BTreeMap<String, usize>,
}

impl Tally {
    /// Calls in every method of a class that can take one.
    fn rewrite_all(&mut self, class_file: &[u8]) -> Vec<u8> {
        self.classes += 1;
        let mut current = class_file.to_vec();
        for candidate in candidates(class_file) {
            if let Some(rewritten) = self.rewrite(&current, &candidate) {
                current = rewritten;
            }
        }
        current
    }

    fn rewrite(&mut self, class_file: &[u8], candidate: &Candidate) -> Option<Vec<u8>> {
        let splice = candidate.splice();
        match classfile::rewrite(class_file, &splice, &CALLEE) {
            Ok(rewritten) => {
                assert_only_the_call_is_new(class_file, &rewritten, &splice);
                self.methods += 1;
                Some(rewritten)
            }
            Err(refusal) => {
                *self.refusals.entry(refusal.to_string()).or_default() += 1;
                None
            }
        }
    }
}

/// A bridge in Java, for JVMs without the agent.
fn write_bridge(folder: &Path, javac: &mut Command) {
    let source = folder.join("leaderwatch/Bridge.java");
    std::fs::create_dir_all(source.parent().unwrap()).unwrap();
    let body = "package leaderwatch; public final class Bridge {
        public static void on(int hook, Object self, Object first, Object second) {} }";
    std::fs::write(&source, body).unwrap();
    run_to_end(javac.arg("-d").arg(folder).arg(&source));
}

/// The class files below a folder, by their path in it.
fn class_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "class") {
                found.push(path.strip_prefix(folder).unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// Rewrites all classes of a folder into another.
fn rewrite_folder(from: &Path, to: &Path) -> Tally {
    let mut tally = Tally::default();
    for file in class_files(from) {
        let rewritten = tally.rewrite_all(&std::fs::read(from.join(&file)).unwrap());
        let target = to.join(&file);
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::write(target, rewritten).unwrap();
    }
    tally
}

#[test]
fn methods_of_every_shape_do_with_a_call_what_they_did_without() {
    let run = |jdk: &Path, classes: &Path| Run::of(java(jdk).arg("-cp").arg(classes).arg("Shapes").output().unwrap());
    for jdk in jdks() {
        let before = run(jdk, &classes());
        assert_eq!((before.code, before.stderr.as_str()), (Some(0), ""));
        let rewritten = folder("shapes");
        let tally = rewrite_folder(&classes(), &rewritten);
        assert!(tally.methods >= 30, "{}", tally.methods);
        assert_eq!(tally.refusals, BTreeMap::new());
        write_bridge(&rewritten, &mut Command::new(jdk.join("bin/javac")));
        let after = run(jdk, &rewritten);
        assert_eq!((after.code, after.stdout, after.stderr), (before.code, before.stdout, before.stderr));
    }
}

/// Minutes: run it with `cargo nextest run -p leaderwatch-native --run-ignored only`.
#[test]
#[ignore = "rewrites and verifies all classes of each JDK: minutes"]
fn the_jdks_own_classes_verify_with_a_call_in_every_method() {
    for jdk in jdks() {
        let folder = folder("jdk");
        let (original, rewritten) = (folder.join("original"), folder.join("rewritten"));
        let modules = jdk.join("lib/modules");
        run_to_end(Command::new(jdk.join("bin/jimage")).arg("extract").arg("--dir").arg(&original).arg(modules));
        for module in std::fs::read_dir(&original).unwrap().flatten() {
            let name = module.file_name().into_string().unwrap();
            if name == "java.base" {
                continue;
            }
            let to = rewritten.join(&name);
            let tally = rewrite_folder(&module.path(), &to);
            let list = folder.join("names");
            std::fs::write(&list, class_names(&module.path())).unwrap();
            let link = |patch: Option<&Path>| {
                let mut command = java(jdk);
                if let Some(patch) = patch {
                    command.arg(format!("--patch-module={name}={}", patch.display()));
                }
                let module = format!("--add-modules={name}");
                Run::of(command.arg(module).arg("-cp").arg(classes()).arg("corpus.Link").arg(&list).output().unwrap())
            };
            let (before, after) = (link(None), link(Some(&to)));
            println!("{} {name}: {} {} {:?}", jdk.display(), tally.classes, tally.methods, tally.refusals);
            assert_eq!(after.stdout, before.stdout, "{name}: {}", after.stderr);
        }
    }
}

fn class_names(folder: &Path) -> String {
    let names = class_files(folder).into_iter().filter(|file| !file.ends_with("module-info.class"));
    names.map(|file| format!("{}\n", file.with_extension("").to_str().unwrap().replace('/', "."))).collect()
}
