//! `libleaderwatch.so`: the boundary between the JVM and the agent, and all `unsafe` code of Leaderwatch.
//!
//! A JVM loads it by `-agentpath` or at an attach. It puts one call at the entry of the methods by which Flink tells
//! leaders ([`hooks`], [`classfile`]), reads what they were called with ([`bridge`]), and hands that to
//! `leaderwatch_agent`. No thread of the agent is ever attached to the JVM.

use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use jni::sys::{JNI_ERR, JNI_OK, JavaVM, jint};

pub mod bridge;
pub mod classfile;
pub mod hooks;
mod jvmti;
mod properties;

mod signals;
mod startup;
mod transform;

/// Every way from the JVM into this library leads through here: a panic must not unwind into the JVM, which would abort.
fn guarded<T>(enter: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(enter)).map_err(std::mem::forget).ok()
}

/// The JVM loads the library at its start.
///
/// # Safety
/// Called by the JVM only, with its own pointer and the options as a text that ends with a null, or null.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Agent_OnLoad(vm: *mut JavaVM, options: *mut c_char, _reserved: *mut c_void) -> jint {
    // SAFETY: by this function's contract.
    guarded(|| unsafe { startup::on_load(vm, options) });
    JNI_OK
}

/// Somebody has the library loaded into a JVM that runs (`jcmd PID JVMTI.agent_load`).
///
/// # Safety
/// As [`Agent_OnLoad`].
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Agent_OnAttach(vm: *mut JavaVM, options: *mut c_char, _reserved: *mut c_void) -> jint {
    // SAFETY: by this function's contract.
    guarded(|| unsafe { startup::on_attach(vm, options) }).unwrap_or(JNI_ERR)
}

/// The JVM is about to give the library back. Nothing is left to do: VMDeath has stopped the agent, and the library
/// stays mapped (`-z nodelete`), as the agent's threads may still run.
#[unsafe(no_mangle)]
pub extern "system" fn Agent_OnUnload(_vm: *mut JavaVM) {}
