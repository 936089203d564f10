//! ClassFileLoadHook: rewrites the classes of the table as they are loaded, and has those read again that were loaded
//! before.

use std::ffi::{CStr, c_char, c_uchar};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use jni::sys::{JNIEnv, jclass, jint, jobject};
use jvmti_sys::{JvmtiCapabilities, JvmtiEnv, JvmtiEvent};
use leaderwatch_agent::process::Role;

use crate::bridge::CALLEE;
use crate::classfile::{self, Refusal};
use crate::hooks::{self, Needed};
use crate::jvmti::{Failure, Jvmti};
use crate::startup;

/// The system class loader, as a global reference. Only its classes are rewritten: Flink's own are there, and they are
/// never unloaded.
static SYSTEM_LOADER: AtomicPtr<jni::sys::_jobject> = AtomicPtr::new(ptr::null_mut());

/// Starts to rewrite. The bridge must work already: a spliced call that cannot find it throws NoClassDefFoundError, and
/// goes on doing so for good.
///
/// # Safety
/// `jni` must be the current thread's environment in the live phase, and `system_loader` a global reference to a class
/// loader.
pub unsafe fn enable(jvmti: Jvmti, jni: *mut JNIEnv, system_loader: jobject, role: Role) -> Result<(), Failure> {
    SYSTEM_LOADER.store(system_loader, Ordering::Release);
    // Before the event is enabled: afterwards the JVM refuses this capability (HotSpot's
    // record_first_time_class_file_load_hook_enabled).
    let may_retransform = jvmti.add_capabilities(JvmtiCapabilities::none().with_retransform_classes());
    jvmti.enable(JvmtiEvent::CLASS_FILE_LOAD_HOOK)?;
    // SAFETY: by this function's contract.
    unsafe { retransform_loaded(jvmti, jni, system_loader, role, may_retransform) }
}

/// Classes may be there already: at an attach, or loaded by a `-javaagent` that stands before this one.
///
/// # Safety
/// As [`enable`].
unsafe fn retransform_loaded(
    jvmti: Jvmti,
    jni: *mut JNIEnv,
    system_loader: jobject,
    role: Role,
    may_retransform: Result<(), Failure>,
) -> Result<(), Failure> {
    // SAFETY: by the caller's contract.
    for (class, name) in unsafe { loaded_and_hooked(jvmti, jni, system_loader, role) }? {
        // SAFETY: a local reference of this frame, which is not used any more once it is given back.
        unsafe {
            if let Err(failure) = may_retransform.and_then(|()| jvmti.retransform(class)) {
                startup::hook_states().refused(&name, format!("loaded before the agent, and {failure}"));
            }
            ((**jni).v1_1.DeleteLocalRef)(jni, class);
        }
    }
    Ok(())
}

/// The classes of the table that the loader has, as local references, with their names.
///
/// # Safety
/// As [`enable`].
unsafe fn loaded_and_hooked(
    jvmti: Jvmti,
    jni: *mut JNIEnv,
    system_loader: jobject,
    role: Role,
) -> Result<Vec<(jclass, String)>, Failure> {
    let mut hooked = Vec::new();
    // SAFETY: by the caller's contract; references that are given back are not used any more.
    unsafe {
        let loaded = jvmti.classes_of_loader(system_loader)?;
        // JVM TI has made the references already; this says that they are meant (`-Xcheck:jni` warns of more than 32).
        ((**jni).v1_2.EnsureLocalCapacity)(jni, jint::try_from(loaded.len() + 32).unwrap_or(jint::MAX));
        for class in loaded {
            match jvmti.class_name(class) {
                Some(name) if hooks::hooks_of(name.as_bytes(), role).next().is_some() => hooked.push((class, name)),
                _ => ((**jni).v1_1.DeleteLocalRef)(jni, class),
            }
        }
    }
    Ok(hooked)
}

/// The callback. Runs in whatever thread loads a class: no Java code is called and no lock of Flink's is waited for.
///
/// # Safety
/// Called by the JVM only.
#[allow(clippy::too_many_arguments)] // the JVM's choice
pub unsafe extern "system" fn class_file_load_hook(
    jvmti: *mut JvmtiEnv,
    jni: *mut JNIEnv,
    _class_being_redefined: jclass,
    loader: jobject,
    name: *const c_char,
    _protection_domain: jobject,
    class_data_len: jint,
    class_data: *const c_uchar,
    new_class_data_len: *mut jint,
    new_class_data: *mut *mut c_uchar,
) {
    crate::guarded(|| {
        let Some(role) = startup::role() else { return };
        // SAFETY: the JVM passes a name that ends with a null, or null.
        let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) });
        let Some(name) = name.filter(|name| hooks::hooks_of(name.to_bytes(), role).next().is_some()) else { return };
        // SAFETY: the JVM's environment and loader; the loader's global reference is never deleted.
        if !unsafe { is_system_loader(jni, loader) } {
            return;
        }
        let length = usize::try_from(class_data_len).unwrap_or(0);
        // SAFETY: the JVM passes that many bytes, which stay there during the callback.
        let class_file = unsafe { std::slice::from_raw_parts(class_data, length) };
        let Some(rewritten) = rewrite(name, class_file, role) else { return };
        // SAFETY: the JVM passes its environment.
        let Some(jvmti) = (unsafe { Jvmti::from_raw(jvmti) }) else { return };
        let Ok(new_length) = jint::try_from(rewritten.len()) else { return };
        if let Ok(memory) = jvmti.copy_to_jvm(&rewritten) {
            // SAFETY: the JVM passes places for the result; the memory comes from its own Allocate.
            unsafe {
                *new_class_data_len = new_length;
                *new_class_data = memory.as_ptr();
            }
        }
    });
}

/// # Safety
/// `jni` must be null or the current thread's environment, `loader` null or a valid reference.
unsafe fn is_system_loader(jni: *mut JNIEnv, loader: jobject) -> bool {
    let system_loader = SYSTEM_LOADER.load(Ordering::Acquire);
    if jni.is_null() || loader.is_null() || system_loader.is_null() {
        return false;
    }
    // SAFETY: by this function's contract.
    unsafe { ((**jni).v1_1.IsSameObject)(jni, loader, system_loader) }
}

/// The class file with every hook of the class that it can take, and says in the states what became of it; none where
/// nothing was changed. A class that has none of the methods, as this version of Flink has it, stays `not seen yet`.
fn rewrite(name: &CStr, class_file: &[u8], role: Role) -> Option<Vec<u8>> {
    let mut rewritten: Option<Vec<u8>> = None;
    let mut problem = None;
    let mut hooked = None;
    let mut alternative = None;
    for (number, hook) in hooks::hooks_of(name.to_bytes(), role) {
        let current = rewritten.as_deref().unwrap_or(class_file);
        match classfile::rewrite(current, &hook.splice(number), &CALLEE) {
            Ok(bytes) => {
                rewritten = Some(bytes);
                hooked = Some(hook);
            }
            Err(Refusal::AlreadyCalls) => hooked = Some(hook),
            Err(refusal) if refusal.is_missing_method() => match hook.needed {
                Needed::ByNewer => {}
                Needed::ByContenders if !classfile::implements(class_file, hooks::LEADER_CONTENDER) => {}
                Needed::OrAnother => alternative = Some((hook, refusal)),
                Needed::Always | Needed::ByContenders => problem = Some((hook, refusal)),
            },
            Err(refusal) => problem = Some((hook, refusal)),
        }
    }
    let states = startup::hook_states();
    if let Some((hook, refusal)) = problem.or(alternative.filter(|_| hooked.is_none())) {
        states.refused(hook.class, format!("{}: {refusal}", hook.method));
    } else if let Some(hook) = hooked {
        states.installed(hook.class);
    }
    rewritten
}
