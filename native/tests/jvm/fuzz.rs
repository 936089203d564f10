//! Fuzzing of the rewriter: seeds and some random input under `cargo test`, libFuzzer by `scripts/fuzz`.
//!
//! Two oracles: `cafebabe` reads what came out of it, and a JVM, in one batch over all that the fuzzer found, verifies a
//! rewritten class if and only if it verifies the class as it was.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bolero::check;
use leaderwatch::bridge::CALLEE;
use leaderwatch::classfile::{Argument, Splice, rewrite};

use crate::corpus::{Tally, write_bridge};
use crate::oracle::{assert_only_calls_are_new, candidates};
use crate::support::*;

/// Found in the class files that begin the search.
const METHOD: Splice<'static> = Splice {
    method: "<init>",
    descriptor: "()V",
    hook: 1,
    arguments: [Argument::Null, Argument::Null, Argument::Null],
};

/// Seeds, or what `scripts/fuzz` found.
fn found() -> PathBuf {
    let seeds = || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jvm/__fuzz__/rewriter/corpus");
    std::env::var_os("LEADERWATCH_FUZZ_FOUND").map_or_else(seeds, PathBuf::from)
}

/// Whether each method can be told from the others by name and descriptor, without which no JVM takes a class.
fn is_sound(class_file: &[u8]) -> bool {
    let Some(methods) = candidates(class_file) else { return false };
    let names: BTreeSet<_> = methods.iter().map(|method| (&method.method, &method.descriptor)).collect();
    names.len() == methods.len()
}

#[test]
fn fuzz_rewriter() {
    check!(name = "rewriter").with_iterations(200).for_each(|bytes: &[u8]| {
        // Whatever it is, the rewriter comes back, and a second call is refused.
        if let Ok(once) = rewrite(bytes, &METHOD, &CALLEE) {
            assert!(rewrite(&once, &METHOD, &CALLEE).is_err());
        }
        if !is_sound(bytes) {
            return;
        }
        for method in candidates(bytes).unwrap() {
            let splice = method.splice();
            if let Ok(rewritten) = rewrite(bytes, &splice, &CALLEE) {
                assert_only_calls_are_new(bytes, &rewritten, &[splice]);
            }
        }
    });
}

#[test]
fn what_the_fuzzer_found_verifies_with_calls_as_without() {
    let folder = folder("fuzz");
    let (before, after, bridge) = (folder.join("before"), folder.join("after"), folder.join("bridge"));
    for folder in [&before, &after, &bridge] {
        std::fs::create_dir_all(folder).unwrap();
    }
    let mut tally = Tally::default();
    for entry in std::fs::read_dir(found()).unwrap().flatten() {
        let class_file = std::fs::read(entry.path()).unwrap();
        if !is_sound(&class_file) {
            continue;
        }
        std::fs::write(before.join(entry.file_name()), &class_file).unwrap();
        std::fs::write(after.join(entry.file_name()), tally.rewrite_all(&class_file)).unwrap();
    }
    assert!(tally.methods > 0, "{tally:?}");
    let jdk = &jdks()[0];
    write_bridge(&bridge, jdk_tool(jdk, "javac").args(["--release", "8", "-nowarn", "-Xlint:-options"]));
    let define = |classes: &Path| {
        let class_path = format!("{}:{}", bridge.display(), tools().display());
        let output = run_to_end(java(jdk).arg("-cp").arg(class_path).arg("corpus.Define").arg(classes));
        String::from_utf8(output.stdout).unwrap()
    };
    let (as_it_was, with_calls) = (define(&before), define(&after));
    assert!(as_it_was.contains(" linked"), "{as_it_was}");
    println!("{tally:?}\n{as_it_was}");
    assert_eq!(with_calls, as_it_was);
}
