//! What the agent needs to know of this JVM: system properties as Java sees them. JVM TI shows only those that the JVM
//! itself holds, and neither `java.version` nor `java.io.tmpdir` is among them.

use jni::objects::{JString, JValue};
use jni::sys::JNIEnv;
use jni::{Env, EnvUnowned, Outcome, jni_sig, jni_str};
use leaderwatch_agent::process::JvmFacts;

/// Reads them. What cannot be read is left out, and no exception is left pending.
///
/// # Safety
/// `jni` must be the current thread's environment, in the live phase.
pub unsafe fn read(jni: *mut JNIEnv) -> JvmFacts {
    // SAFETY: `jni` is valid by this function's contract, and does not leave this frame.
    let mut environment = unsafe { EnvUnowned::from_raw(jni) };
    let outcome = environment.with_env(|env| {
        Ok::<_, jni::errors::Error>(JvmFacts {
            command: property(env, "sun.java.command").unwrap_or_default(),
            java_version: property(env, "java.version"),
            class_path: property(env, "java.class.path"),
            log_file: property(env, "log.file"),
            tmpdir: property(env, "java.io.tmpdir"),
        })
    });
    match outcome.into_outcome() {
        Outcome::Ok(facts) => facts,
        Outcome::Err(_) | Outcome::Panic(_) => JvmFacts::default(),
    }
}

fn property(env: &mut Env<'_>, name: &str) -> Option<String> {
    let value = get_property(env, name).ok().flatten();
    env.exception_clear();
    value
}

fn get_property(env: &mut Env<'_>, name: &str) -> jni::errors::Result<Option<String>> {
    let name = env.new_string(name)?;
    let value = env.call_static_method(
        jni_str!("java/lang/System"),
        jni_str!("getProperty"),
        jni_sig!("(Ljava/lang/String;)Ljava/lang/String;"),
        &[JValue::Object(&name)],
    )?;
    let value = value.l()?;
    if value.is_null() {
        return Ok(None);
    }
    let value = env.cast_local::<JString>(value)?;
    value.try_to_string(env).map(Some)
}
