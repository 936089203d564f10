//! A JVM TI environment, with the few functions that are needed and their memory rules kept.

use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::ptr::{self, NonNull};

use jni::sys::{JavaVM, jclass, jint, jobject};
use jvmti_sys::{
    JVMTI_VERSION_1_2, JvmtiCapabilities, JvmtiEnv, JvmtiError, JvmtiEvent, JvmtiEventCallbacks, JvmtiEventMode,
    JvmtiPhase, JvmtiThreadInfo,
};

/// An environment of this JVM. Valid until it is disposed of or the JVM is gone; usable on any thread of the JVM.
#[derive(Clone, Copy)]
pub struct Jvmti {
    env: NonNull<JvmtiEnv>,
}

/// A function of JVM TI that did not do what it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// Which function.
    pub function: &'static str,
    /// What it returned.
    pub error: JvmtiError,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} failed with JVM TI error {}", self.function, self.error.0)
    }
}

impl std::error::Error for Failure {}

/// Calls a function of the table. Must stand in an `unsafe` block: the arguments must be what the function asks for.
macro_rules! call {
    ($jvmti:expr, $function:ident $(, $argument:expr)*) => {{
        let env = $jvmti.env.as_ptr();
        let error = match (**env).$function {
            Some(function) => function(env $(, $argument)*),
            None => JvmtiError::NOT_AVAILABLE,
        };
        if error == JvmtiError::NONE { Ok(()) } else { Err(Failure { function: stringify!($function), error }) }
    }};
}

impl Jvmti {
    /// A new environment of that JVM; none where the JVM has no JVM TI 1.2.
    ///
    /// # Safety
    /// `vm` must be the JVM's, as passed to an agent's entry points.
    pub unsafe fn new(vm: *mut JavaVM) -> Option<Self> {
        let mut env = ptr::null_mut();
        // SAFETY: `vm` is valid by this function's contract; `env` is a valid place for a pointer.
        let result = unsafe { ((**vm).v1_2.GetEnv)(vm, &raw mut env, JVMTI_VERSION_1_2) };
        let env = NonNull::new(env.cast()).filter(|_| result == jni::sys::JNI_OK)?;
        Some(Self { env })
    }

    /// The environment that a callback was given.
    ///
    /// # Safety
    /// `env` must be null or an environment of this JVM that is not disposed of.
    pub unsafe fn from_raw(env: *mut JvmtiEnv) -> Option<Self> {
        NonNull::new(env).map(|env| Self { env })
    }

    /// Gives the environment back: no callback of it comes any more.
    pub fn dispose(self) {
        // SAFETY: the environment is valid and, since `self` is consumed, not used by the caller any more.
        let _ = unsafe { call!(self, DisposeEnvironment) };
    }

    /// A system property as the JVM was started with it; none where it is not set.
    pub fn system_property(self, name: &CStr) -> Option<String> {
        let mut value: *mut c_char = ptr::null_mut();
        // SAFETY: the name ends with a null, and `value` is a valid place for a pointer.
        unsafe { call!(self, GetSystemProperty, name.as_ptr(), &raw mut value) }.ok()?;
        // SAFETY: on success `value` is a text that ends with a null and belongs to us.
        unsafe { self.take_text(value) }
    }

    /// The current thread's name; none where the JVM does not tell.
    pub fn current_thread_name(self) -> Option<String> {
        let mut info = JvmtiThreadInfo::none();
        // SAFETY: a null thread means the current one, and `info` is a valid place.
        unsafe { call!(self, GetThreadInfo, ptr::null_mut(), &raw mut info) }.ok()?;
        // SAFETY: on success the name is a text that ends with a null and belongs to us.
        unsafe { self.take_text(info.name) }
    }

    /// Whether Java code may run: from VMInit to VMDeath.
    pub fn is_live(self) -> bool {
        let mut phase = JvmtiPhase::DEAD;
        // SAFETY: `phase` is a valid place.
        unsafe { call!(self, GetPhase, &raw mut phase) }.is_ok() && phase == JvmtiPhase::LIVE
    }

    /// Sets what is called at events.
    pub fn set_callbacks(self, callbacks: &JvmtiEventCallbacks) -> Result<(), Failure> {
        // The struct has 22 pointers.
        let size_bytes = size_of::<JvmtiEventCallbacks>() as jint;
        // SAFETY: the JVM copies as many bytes as it is told, and these are there.
        unsafe { call!(self, SetEventCallbacks, ptr::from_ref(callbacks), size_bytes) }
    }

    /// Enables an event for every thread.
    pub fn enable(self, event: JvmtiEvent) -> Result<(), Failure> {
        // SAFETY: a null thread means every thread.
        unsafe { call!(self, SetEventNotificationMode, JvmtiEventMode::ENABLE, event, ptr::null_mut()) }
    }

    /// Asks for capabilities.
    pub fn add_capabilities(self, capabilities: JvmtiCapabilities) -> Result<(), Failure> {
        // SAFETY: the JVM reads the struct during the call.
        unsafe { call!(self, AddCapabilities, &raw const capabilities) }
    }

    /// A copy in memory of the JVM's own, which is then the JVM's to free: new bytes of a class.
    pub fn copy_to_jvm(self, bytes: &[u8]) -> Result<NonNull<u8>, Failure> {
        let failure = Failure { function: "Allocate", error: JvmtiError::INTERNAL };
        let mut memory: *mut u8 = ptr::null_mut();
        let size = i64::try_from(bytes.len()).map_err(|_| failure)?;
        // SAFETY: `memory` is a valid place for a pointer.
        unsafe { call!(self, Allocate, size, &raw mut memory) }?;
        let memory = NonNull::new(memory).ok_or(failure)?;
        // SAFETY: on success the memory is new and has `bytes.len()` bytes.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), memory.as_ptr(), bytes.len()) };
        Ok(memory)
    }

    /// The classes that a loader has loaded or found, as local references of the current frame.
    ///
    /// # Safety
    /// `loader` must be a valid reference to a class loader, and the current thread attached to the JVM.
    pub unsafe fn classes_of_loader(self, loader: jobject) -> Result<Vec<jclass>, Failure> {
        let (mut count, mut classes): (jint, *mut jclass) = (0, ptr::null_mut());
        // SAFETY: `loader` is valid by this function's contract, and the others are valid places.
        unsafe { call!(self, GetClassLoaderClasses, loader, &raw mut count, &raw mut classes) }?;
        let length = usize::try_from(count).unwrap_or(0);
        if classes.is_null() || length == 0 {
            return Ok(Vec::new());
        }
        // SAFETY: on success the array has that many references.
        let copy = unsafe { std::slice::from_raw_parts(classes, length) }.to_vec();
        // SAFETY: the array is ours to deallocate, and is not used any more.
        let _ = unsafe { call!(self, Deallocate, classes.cast()) };
        Ok(copy)
    }

    /// The internal name of a class; none for arrays and where the JVM does not tell.
    ///
    /// # Safety
    /// `class` must be a valid reference to a class.
    pub unsafe fn class_name(self, class: jclass) -> Option<String> {
        let mut signature: *mut c_char = ptr::null_mut();
        // SAFETY: `class` is valid by this function's contract; a null says that the generic signature is not wanted.
        unsafe { call!(self, GetClassSignature, class, &raw mut signature, ptr::null_mut()) }.ok()?;
        // SAFETY: on success `signature` is a text that ends with a null and belongs to us.
        let signature = unsafe { self.take_text(signature) }?;
        signature.strip_prefix('L')?.strip_suffix(';').map(str::to_owned)
    }

    /// Has a loaded class read again, with ClassFileLoadHook.
    ///
    /// # Safety
    /// `class` must be a valid reference to a class.
    pub unsafe fn retransform(self, class: jclass) -> Result<(), Failure> {
        // SAFETY: one class, valid by this function's contract.
        unsafe { call!(self, RetransformClasses, 1, &raw const class) }
    }

    /// # Safety
    /// `text` must be null or a text that ends with a null and that JVM TI gave us to deallocate.
    unsafe fn take_text(self, text: *mut c_char) -> Option<String> {
        if text.is_null() {
            return None;
        }
        // SAFETY: the text ends with a null by this function's contract.
        let copy: CString = unsafe { CStr::from_ptr(text) }.to_owned();
        // SAFETY: the text is ours to deallocate, and is not used any more.
        let _ = unsafe { call!(self, Deallocate, text.cast()) };
        Some(copy.to_string_lossy().into_owned())
    }
}
