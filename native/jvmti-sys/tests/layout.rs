//! The layouts of this crate against the `jvmti.h` of every JDK found on this machine.
//!
//! A C program is compiled with each JDK's own headers and prints sizes, offsets and numbers; the same list is made
//! from the Rust types. JDKs are looked for in `$JAVA_HOME` and `/usr/lib/jvm`.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::Command;

use jvmti_sys::*;

/// One line of the probe: its name, the C expression, and what Rust has.
struct Fact {
    name: String,
    c_expression: String,
    rust: usize,
}

fn facts() -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut add = |name: &str, c_expression: &str, rust: usize| {
        facts.push(Fact { name: name.to_owned(), c_expression: c_expression.to_owned(), rust });
    };
    add("table size", "sizeof(struct jvmtiInterface_1_)", size_of::<JvmtiInterface>());
    add("capabilities size", "sizeof(jvmtiCapabilities)", size_of::<JvmtiCapabilities>());
    add(
        "callbacks size",
        "offsetof(jvmtiEventCallbacks, DataDumpRequest) + sizeof(void *)",
        size_of::<JvmtiEventCallbacks>(),
    );
    add("thread info size", "sizeof(jvmtiThreadInfo)", size_of::<JvmtiThreadInfo>());
    add("thread info name", "offsetof(jvmtiThreadInfo, name)", offset_of!(JvmtiThreadInfo, name));
    macro_rules! functions {
        ($($name:ident)*) => { $(add(
            concat!("function ", stringify!($name)),
            concat!("offsetof(struct jvmtiInterface_1_, ", stringify!($name), ")"),
            offset_of!(JvmtiInterface, $name),
        );)* };
    }
    functions! {
        SetEventNotificationMode GetThreadInfo Allocate Deallocate GetClassSignature GetClassLoader GetLoadedClasses
        GetClassLoaderClasses SetEventCallbacks DisposeEnvironment GetErrorName GetSystemProperty GetPhase
        GetPotentialCapabilities AddCapabilities RetransformClasses
    }
    macro_rules! callbacks {
        ($($name:ident)*) => { $(add(
            concat!("callback ", stringify!($name)),
            concat!("offsetof(jvmtiEventCallbacks, ", stringify!($name), ")"),
            offset_of!(JvmtiEventCallbacks, $name),
        );)* };
    }
    callbacks! { VMInit VMDeath ClassFileLoadHook DataDumpRequest }
    macro_rules! numbers {
        ($($c_name:ident = $rust:expr;)*) => { $(add(stringify!($c_name), stringify!($c_name), $rust as usize);)* };
    }
    numbers! {
        JVMTI_ERROR_NONE = JvmtiError::NONE.0;
        JVMTI_ERROR_CLASS_NOT_PREPARED = JvmtiError::CLASS_NOT_PREPARED.0;
        JVMTI_ERROR_INVALID_CLASS_FORMAT = JvmtiError::INVALID_CLASS_FORMAT.0;
        JVMTI_ERROR_FAILS_VERIFICATION = JvmtiError::FAILS_VERIFICATION.0;
        JVMTI_ERROR_UNSUPPORTED_REDEFINITION_METHOD_ADDED = JvmtiError::UNSUPPORTED_REDEFINITION_METHOD_ADDED.0;
        JVMTI_ERROR_UNSUPPORTED_REDEFINITION_SCHEMA_CHANGED = JvmtiError::UNSUPPORTED_REDEFINITION_SCHEMA_CHANGED.0;
        JVMTI_ERROR_UNMODIFIABLE_CLASS = JvmtiError::UNMODIFIABLE_CLASS.0;
        JVMTI_ERROR_NOT_AVAILABLE = JvmtiError::NOT_AVAILABLE.0;
        JVMTI_ERROR_MUST_POSSESS_CAPABILITY = JvmtiError::MUST_POSSESS_CAPABILITY.0;
        JVMTI_ERROR_WRONG_PHASE = JvmtiError::WRONG_PHASE.0;
        JVMTI_ERROR_INTERNAL = JvmtiError::INTERNAL.0;
        JVMTI_EVENT_VM_INIT = JvmtiEvent::VM_INIT.0;
        JVMTI_EVENT_VM_DEATH = JvmtiEvent::VM_DEATH.0;
        JVMTI_EVENT_CLASS_FILE_LOAD_HOOK = JvmtiEvent::CLASS_FILE_LOAD_HOOK.0;
        JVMTI_EVENT_DATA_DUMP_REQUEST = JvmtiEvent::DATA_DUMP_REQUEST.0;
        JVMTI_ENABLE = JvmtiEventMode::ENABLE.0;
        JVMTI_DISABLE = JvmtiEventMode::DISABLE.0;
        JVMTI_PHASE_ONLOAD = JvmtiPhase::ONLOAD.0;
        JVMTI_PHASE_PRIMORDIAL = JvmtiPhase::PRIMORDIAL.0;
        JVMTI_PHASE_LIVE = JvmtiPhase::LIVE.0;
        JVMTI_PHASE_START = JvmtiPhase::START.0;
        JVMTI_PHASE_DEAD = JvmtiPhase::DEAD.0;
        JVMTI_VERSION_1_2 = JVMTI_VERSION_1_2;
    }
    add("bit of can_retransform_classes", "bit_of_retransform()", JvmtiCapabilities::CAN_RETRANSFORM_CLASSES);
    facts
}

fn probe_source(facts: &[Fact]) -> String {
    let mut source = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <string.h>\n#include <jvmti.h>\n\
         static int bit_of_retransform(void) {\n\
           jvmtiCapabilities c; unsigned int w[4]; int i; memset(&c, 0, sizeof c);\n\
           c.can_retransform_classes = 1; memcpy(w, &c, sizeof w);\n\
           for (i = 0; i < 128; i++) if (w[i / 32] & (1u << (i % 32))) return i;\n\
           return -1;\n\
         }\n\
         int main(void) {\n",
    );
    for fact in facts {
        writeln!(source, "printf(\"%s: %zu\\n\", \"{}\", (size_t)({}));", fact.name, fact.c_expression)
            .expect("writing to a String");
    }
    source.push_str("return 0; }\n");
    source
}

fn jdks() -> BTreeSet<PathBuf> {
    let installed = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten().map(|entry| entry.path());
    std::env::var_os("JAVA_HOME")
        .map(PathBuf::from)
        .into_iter()
        .chain(installed)
        .filter(|home| home.join("include/jvmti.h").is_file())
        .filter_map(|home| home.canonicalize().ok())
        .collect()
}

fn run_probe(jdk: &Path, source: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let name = jdk.file_name().expect("a JDK has a folder name").to_string_lossy();
    let (c_file, program) = (folder.join(format!("{name}.c")), folder.join(format!("{name}.probe")));
    std::fs::write(&c_file, source).unwrap();
    let compiled = Command::new("cc")
        .arg("-I")
        .arg(jdk.join("include"))
        .arg("-I")
        .arg(jdk.join("include/linux"))
        .args([&c_file, Path::new("-o"), &program])
        .output()
        .expect("a C compiler is needed for this test");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new(&program).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn layouts_are_those_of_the_headers_of_every_jdk_found() {
    let facts = facts();
    let expected: String = facts.iter().map(|fact| format!("{}: {}\n", fact.name, fact.rust)).collect();
    let source = probe_source(&facts);
    let jdks = jdks();
    assert!(!jdks.is_empty(), "no JDK with headers in $JAVA_HOME or /usr/lib/jvm");
    for jdk in jdks {
        assert_eq!(run_probe(&jdk, &source), expected, "{}", jdk.display());
    }
}

/// 156 functions, as the header numbers them.
#[test]
fn the_table_has_156_slots() {
    assert_eq!(size_of::<JvmtiInterface>(), 156 * size_of::<*const ()>());
}

#[test]
fn a_capability_is_one_bit() {
    let capabilities = JvmtiCapabilities::none().with_retransform_classes();
    assert_ne!(capabilities, JvmtiCapabilities::none());
    assert_eq!(format!("{capabilities:?}"), "JvmtiCapabilities { words: [0, 32, 0, 0] }");
}
