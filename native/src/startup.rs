//! What happens when the agent is loaded, when the JVM is up, when somebody attaches it, and when the JVM ends.
//!
//! Load: in a JVM that is no Flink server process nothing at all is done. Else nothing but VMInit, VMDeath and
//! DataDumpRequest (`kill -3`) is asked for. VMInit: bridge, agent, class hooks, in this order: a spliced call must find the bridge, and a call must find the
//! agent. An attach does the same at once.

use std::ffi::{CStr, c_char};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use jni::sys::{JNI_ERR, JNI_OK, JNI_VERSION_1_6, JNIEnv, JavaVM, jint, jobject};
use jvmti_sys::{JvmtiEnv, JvmtiEvent, JvmtiEventCallbacks};
use leaderwatch_agent::process::Role;
use leaderwatch_agent::runtime::{self, Agent, HookStates};

use crate::bridge;
use crate::hooks;
use crate::jvmti::{Failure, Jvmti};
use crate::properties;
use crate::signals;
use crate::transform;

/// What is known from the load on; set once a process. A second load of the same file changes nothing.
struct Loaded {
    role: Role,
    options: String,
    hooks: Arc<HookStates>,
}

static LOADED: OnceLock<Loaded> = OnceLock::new();
/// Set once the bridge works; never dropped, since Flink's threads may call at any time.
static AGENT: OnceLock<Agent> = OnceLock::new();
/// VMInit or an attach has come this far; the other of the two changes nothing.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// The agent, once it works.
pub fn agent() -> Option<&'static Agent> {
    AGENT.get()
}

/// What this process is, once the agent is loaded.
pub fn role() -> Option<Role> {
    LOADED.get().map(|loaded| loaded.role)
}

/// What became of each hook. Empty where the agent is not loaded.
pub fn hook_states() -> Arc<HookStates> {
    LOADED.get().map_or_else(|| Arc::new(HookStates::new(&[])), |loaded| Arc::clone(&loaded.hooks))
}

/// Agent_OnLoad. Never fails: a failing agent would end the JVM.
///
/// # Safety
/// The arguments must be those of Agent_OnLoad.
pub unsafe fn on_load(vm: *mut JavaVM, options: *const c_char) {
    // SAFETY: by this function's contract.
    let Some(jvmti) = (unsafe { load(vm, options) }) else {
        return;
    };
    let events = [JvmtiEvent::VM_INIT, JvmtiEvent::VM_DEATH, JvmtiEvent::DATA_DUMP_REQUEST];
    if let Err(failure) = listen(jvmti, &events) {
        complain(&format!("does nothing: {failure}"));
        jvmti.dispose();
    }
}

/// Agent_OnAttach. A result other than JNI_OK is told to whoever attached.
///
/// # Safety
/// The arguments must be those of Agent_OnAttach.
pub unsafe fn on_attach(vm: *mut JavaVM, options: *const c_char) -> jint {
    if LOADED.get().is_some() {
        // SAFETY: by this function's contract.
        reconfigure(unsafe { text(options) });
        return JNI_OK;
    }
    // SAFETY: by this function's contract.
    let Some(jvmti) = (unsafe { load(vm, options) }) else {
        complain("does nothing: this is no Flink JobManager or TaskManager");
        return JNI_ERR;
    };
    let mut jni = std::ptr::null_mut();
    // SAFETY: the JVM's own pointer, and a place for another; an attach runs in a thread of the JVM.
    let has_jni = unsafe { ((**vm).v1_2.GetEnv)(vm, &raw mut jni, JNI_VERSION_1_6) } == JNI_OK;
    if !has_jni || !jvmti.is_live() {
        complain("does nothing: the JVM is not up");
        return JNI_ERR;
    }
    if let Err(failure) = listen(jvmti, &[JvmtiEvent::VM_DEATH, JvmtiEvent::DATA_DUMP_REQUEST]) {
        complain(&format!("does nothing: {failure}"));
        return JNI_ERR;
    }
    // SAFETY: the environment is this thread's, and the JVM is in its live phase.
    if unsafe { begin(jvmti, jni.cast()) } { JNI_OK } else { JNI_ERR }
}

/// An attach to an agent at work changes its options and nothing else. One without options would take away all that it was
/// told, which is hardly meant.
fn reconfigure(options: String) {
    match agent() {
        _ if options.is_empty() => complain("is loaded already; an attach without options changes nothing"),
        None => complain("is loaded already and not at work; the attach changes nothing"),
        Some(agent) => {
            agent.set_options(options);
            complain("is loaded already; takes the new options within ten seconds, or says in its log why not");
        }
    }
}

/// What an agent is given as its options.
///
/// # Safety
/// `options` must be null or a text that ends with a null.
unsafe fn text(options: *const c_char) -> String {
    // SAFETY: by this function's contract.
    let options = (!options.is_null()).then(|| unsafe { CStr::from_ptr(options) });
    options.map(|options| options.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Takes note of what the JVM was started with; none where there is nothing to do: another kind of process, a second
/// load, or no JVM TI.
///
/// # Safety
/// `vm` must be the JVM's, `options` null or a text that ends with a null.
unsafe fn load(vm: *mut JavaVM, options: *const c_char) -> Option<Jvmti> {
    // SAFETY: by this function's contract.
    let jvmti = unsafe { Jvmti::new(vm) }?;
    let role = jvmti.system_property(c"sun.java.command").as_deref().and_then(Role::of_command);
    let Some(role) = role else {
        jvmti.dispose();
        return None;
    };
    // SAFETY: by this function's contract.
    let options = unsafe { text(options) };
    let hooks = Arc::new(HookStates::new(&hooks::classes(role)));
    if LOADED.set(Loaded { role, options, hooks }).is_err() {
        complain("is loaded already; the second load changes nothing");
        jvmti.dispose();
        return None;
    }
    Some(jvmti)
}

fn listen(jvmti: Jvmti, events: &[JvmtiEvent]) -> Result<(), Failure> {
    let callbacks = JvmtiEventCallbacks {
        VMInit: Some(vm_init),
        VMDeath: Some(vm_death),
        DataDumpRequest: Some(data_dump_request),
        ClassFileLoadHook: Some(transform::class_file_load_hook),
        ..JvmtiEventCallbacks::none()
    };
    jvmti.set_callbacks(&callbacks)?;
    events.iter().try_for_each(|event| jvmti.enable(*event))
}

unsafe extern "system" fn vm_init(jvmti: *mut JvmtiEnv, jni: *mut JNIEnv, _thread: jobject) {
    crate::guarded(|| {
        // SAFETY: the JVM passes its environments, this thread's; VMInit is the beginning of the live phase.
        unsafe {
            if let Some(jvmti) = Jvmti::from_raw(jvmti) {
                begin(jvmti, jni);
            }
        }
    });
}

unsafe extern "system" fn vm_death(jvmti: *mut JvmtiEnv, _jni: *mut JNIEnv) {
    crate::guarded(|| {
        if let Some(agent) = agent() {
            // SAFETY: the JVM passes its environment.
            let thread = unsafe { Jvmti::from_raw(jvmti) }.and_then(Jvmti::current_thread_name);
            agent.stop(thread.as_deref().is_some_and(ends_in_order));
        }
    });
}

/// Whether a JVM that is ended by a thread of this name ends in order: asked by a signal, for which the JVM starts a thread
/// (`jdk.internal.misc.Signal`), or by itself, when Flink's main method has nothing more to do. A fatal error in Flink
/// calls `System.exit` on whatever thread it happens.
fn ends_in_order(thread: &str) -> bool {
    matches!(thread, "SIGTERM handler" | "SIGINT handler" | "SIGHUP handler" | "main" | "DestroyJavaVM")
}

/// `kill -3`, on the JVM's thread for signals, after the thread dump.
unsafe extern "system" fn data_dump_request(_jvmti: *mut JvmtiEnv) {
    crate::guarded(|| {
        if let Some(agent) = agent() {
            agent.print_status();
        }
    });
}

/// Puts the agent to work. Says on standard error why, where that cannot be.
///
/// # Safety
/// `jni` must be the current thread's environment, in the live phase.
unsafe fn begin(jvmti: Jvmti, jni: *mut JNIEnv) -> bool {
    let Some(loaded) = LOADED.get() else { return false };
    if BEGUN.swap(true, Ordering::AcqRel) {
        return true;
    }
    // SAFETY: by this function's contract.
    let system_loader = match unsafe { bridge::build(jni) } {
        Ok(system_loader) => system_loader,
        Err(error) => {
            complain(&format!("stands down: {error}"));
            return false;
        }
    };
    // SAFETY: by this function's contract.
    let facts = unsafe { properties::read(jni) };
    let (options, hooks) = (loaded.options.clone(), Arc::clone(&loaded.hooks));
    let agent = signals::with_asynchronous_signals_blocked(|| runtime::start(facts, loaded.role, options, hooks));
    // BEGUN lets one caller come here.
    let _ = AGENT.set(agent);
    // SAFETY: by this function's contract; the loader is the global reference that the bridge made.
    if let Err(failure) = unsafe { transform::enable(jvmti, jni, system_loader, loaded.role) } {
        complain(&format!("cannot hook: {failure}"));
        return false;
    }
    true
}

/// One line on standard error, which may be closed.
fn complain(what: &str) {
    let _ = writeln!(std::io::stderr(), "leaderwatch: this agent {what}");
}
