//! The rewrite on real classes: every method that can take a call gets one; an independent reader looks at the result,
//! and JVMs verify and run it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use leaderwatch::bridge::CALLEE;
use leaderwatch::classfile;

use crate::oracle::{Candidate, assert_only_calls_are_new, candidates};
use crate::support::*;

/// How a class came out of it.
#[derive(Debug, Default)]
pub struct Tally {
    pub classes: usize,
    pub methods: usize,
    /// Classes left as they are, because the independent reader does not read them.
    pub unread: usize,
    pub refusals: BTreeMap<String, usize>,
}

impl Tally {
    /// Calls in every method of a class that can take one.
    pub fn rewrite_all(&mut self, class_file: &[u8]) -> Vec<u8> {
        self.classes += 1;
        let Some(candidates) = candidates(class_file) else {
            self.unread += 1;
            return class_file.to_vec();
        };
        let mut current = class_file.to_vec();
        let mut done = Vec::new();
        for splice in candidates.iter().map(Candidate::splice) {
            match classfile::rewrite(&current, &splice, &CALLEE) {
                Ok(rewritten) => {
                    current = rewritten;
                    done.push(splice);
                }
                Err(refusal) => *self.refusals.entry(refusal.to_string()).or_default() += 1,
            }
        }
        assert_only_calls_are_new(class_file, &current, &done);
        self.methods += done.len();
        current
    }

    /// Nothing was left out but what is there twice, the one class that every other one needs, and at most one class of a
    /// hundred that the independent reader does not know.
    pub fn assert_whole(&self) {
        const EXPECTED: [&str; 2] = ["hooked already", "java/lang/Object is never rewritten"];
        let is_expected = |why: &String| EXPECTED.contains(&why.as_str());
        assert!(self.unread * 100 <= self.classes && self.refusals.keys().all(is_expected), "{self:?}");
    }
}

/// A bridge in Java, for JVMs without the agent.
pub fn write_bridge(folder: &Path, javac: &mut Command) {
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

/// The class files of a jar.
pub fn unpack(jar: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    run_to_end(jdk_tool(&jdks()[0], "jar").arg("xf").arg(jar).current_dir(to));
}

/// Rewrites all classes of a folder into another.
pub fn rewrite_folder(from: &Path, to: &Path) -> Tally {
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
        let before = run(jdk, &tools());
        assert_eq!((before.code, before.stderr.as_str()), (Some(0), ""));
        let rewritten = folder("shapes");
        let tally = rewrite_folder(&tools(), &rewritten);
        assert!(tally.methods >= 25, "{}", tally.methods);
        assert_eq!(tally.refusals, BTreeMap::new());
        write_bridge(&rewritten, jdk_tool(jdk, "javac").args(["--release", "8", "-nowarn", "-Xlint:-options"]));
        let after = run(jdk, &rewritten);
        assert_eq!((after.code, after.stdout, after.stderr), (before.code, before.stdout, before.stderr));
    }
}

/// java.base among them: those JVMs run with a call in every method of theirs.
#[test]
#[ignore = "scripts/test classes"]
fn the_jdks_own_classes_verify_with_a_call_in_every_method() {
    for jdk in jdks() {
        let folder = folder("jdk");
        let (original, rewritten) = (folder.join("original"), folder.join("rewritten"));
        let modules = jdk.join("lib/modules");
        run_to_end(jdk_tool(jdk, "jimage").arg("extract").arg("--dir").arg(&original).arg(modules));
        for module in std::fs::read_dir(&original).unwrap().flatten() {
            let name = module.file_name().into_string().unwrap();
            let to = rewritten.join(&name);
            let tally = rewrite_folder(&module.path(), &to);
            tally.assert_whole();
            if name == "java.base" {
                // The JVM itself runs on these, so they have a bridge beside them.
                write_bridge(&to, jdk_tool(jdk, "javac").args(["--release", "8", "-nowarn", "-Xlint:-options"]));
            }
            let patch = format!("--patch-module={name}={}", to.display());
            let add = format!("--add-modules={name}");
            let list = folder.join("list");
            std::fs::write(&list, class_names(&module.path())).unwrap();
            let before = link(jdk, &[&add], &tools(), &list);
            let after = link(jdk, &[&add, &patch], &tools(), &list);
            println!("{} {name}: {tally:?}", jdk.display());
            assert_eq!(after, before, "{name}");
        }
    }
}

/// Links the classes of a list, and says which do not link.
pub fn link(jdk: &Path, options: &[&str], class_path: &Path, list: &Path) -> String {
    let class_path = format!("{}:{}", class_path.display(), tools().display());
    let mut command = java(jdk);
    let output = run_to_end(command.args(options).arg("-cp").arg(class_path).arg("corpus.Link").arg(list));
    String::from_utf8(output.stdout).unwrap()
}

/// The names of the classes that a folder holds, one a line.
pub fn class_names(folder: &Path) -> String {
    let names = class_files(folder).into_iter().filter(|file| !file.ends_with("module-info.class"));
    names.map(|file| format!("{}\n", file.with_extension("").to_str().unwrap().replace('/', "."))).collect()
}
