//! Raw JVM TI bindings over `jni-sys`: the function table, the callbacks, the capabilities and the numbers, as
//! `jvmti.h` lays them out. Functions and callbacks that Leaderwatch does not use are opaque slots of the right size.
//!
//! Error codes and other enumerations of the C header are open integers, not Rust enums: a JVM may return a number
//! that this version of the header does not know, and a Rust enum with an unknown value is undefined behaviour.
//!
//! Layouts are tested against the headers of the JDKs at hand (`tests/layout.rs`).
#![no_std]
#![allow(non_snake_case)]

use core::ffi::{c_char, c_uchar, c_void};

use jni_sys::{JNIEnv, jboolean, jclass, jint, jobject};

/// A function or callback of the table that is not bound here; its place is kept.
pub type Slot = *mut c_void;

macro_rules! open_integer {
    ($(#[$doc:meta])* $name:ident($integer:ty) { $($(#[$value_doc:meta])* $value:ident = $number:literal,)* }) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name(pub $integer);

        impl $name {
            $($(#[$value_doc])* pub const $value: $name = $name($number);)*
        }
    };
}

open_integer! {
    /// `jvmtiError`: what a function returns.
    JvmtiError(u32) {
        /// No error.
        NONE = 0,
        /// The class is not loaded far enough.
        CLASS_NOT_PREPARED = 22,
        /// The new bytes of a class are not a class file.
        INVALID_CLASS_FORMAT = 60,
        /// The new bytes of a class do not pass verification.
        FAILS_VERIFICATION = 62,
        /// The new bytes add a method.
        UNSUPPORTED_REDEFINITION_METHOD_ADDED = 63,
        /// The new bytes change fields.
        UNSUPPORTED_REDEFINITION_SCHEMA_CHANGED = 64,
        /// The class can never be retransformed.
        UNMODIFIABLE_CLASS = 79,
        /// What was asked for is not available, or not any more.
        NOT_AVAILABLE = 98,
        /// The environment has not the capability that the function needs.
        MUST_POSSESS_CAPABILITY = 99,
        /// The JVM is in a phase in which the function may not be called.
        WRONG_PHASE = 112,
        /// The JVM's own fault.
        INTERNAL = 113,
    }
}

open_integer! {
    /// `jvmtiEvent`.
    JvmtiEvent(u32) {
        /// The JVM is up; the main class has not run.
        VM_INIT = 50,
        /// The JVM ends in order.
        VM_DEATH = 51,
        /// The bytes of a class are about to be read.
        CLASS_FILE_LOAD_HOOK = 54,
        /// Somebody asked for a thread dump (SIGQUIT).
        DATA_DUMP_REQUEST = 71,
    }
}

open_integer! {
    /// `jvmtiEventMode`.
    JvmtiEventMode(u32) {
        /// Send no more.
        DISABLE = 0,
        /// Send.
        ENABLE = 1,
    }
}

open_integer! {
    /// `jvmtiPhase`.
    JvmtiPhase(u32) {
        /// In `Agent_OnLoad`.
        ONLOAD = 1,
        /// Before the first Java thread runs.
        PRIMORDIAL = 2,
        /// From VMInit to VMDeath.
        LIVE = 4,
        /// From VMStart to VMInit.
        START = 6,
        /// After VMDeath.
        DEAD = 8,
    }
}

/// `JVMTI_VERSION_1_2`: the interface of JDK 6 and later, which is all that is needed here.
pub const JVMTI_VERSION_1_2: jint = 0x3001_0200;

/// `jvmtiCapabilities`: 128 bits. Bit fields are numbered from the least significant bit of the first word, as GCC and
/// Clang lay them out on every little-endian platform of Linux.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JvmtiCapabilities {
    words: [u32; 4],
}

impl JvmtiCapabilities {
    /// Bit of `can_retransform_classes`.
    pub const CAN_RETRANSFORM_CLASSES: usize = 37;

    /// No capability.
    pub const fn none() -> Self {
        Self { words: [0; 4] }
    }

    /// With `can_retransform_classes`.
    pub const fn with_retransform_classes(self) -> Self {
        self.with(Self::CAN_RETRANSFORM_CLASSES)
    }

    const fn with(mut self, bit: usize) -> Self {
        self.words[bit / 32] |= 1 << (bit % 32);
        self
    }
}

/// Callback of `VMInit`; `thread` is the main thread.
pub type VmInit = unsafe extern "system" fn(jvmti: *mut JvmtiEnv, jni: *mut JNIEnv, thread: jobject);
/// Callback of `VMDeath`.
pub type VmDeath = unsafe extern "system" fn(jvmti: *mut JvmtiEnv, jni: *mut JNIEnv);
/// Callback of `DataDumpRequest`.
pub type DataDumpRequest = unsafe extern "system" fn(jvmti: *mut JvmtiEnv);
/// Callback of `ClassFileLoadHook`. `class_being_redefined` is null at a first load, `loader` is null for the bootstrap
/// loader, `name` may be null. New bytes must come from [`JvmtiInterface::Allocate`].
pub type ClassFileLoadHook = unsafe extern "system" fn(
    jvmti: *mut JvmtiEnv,
    jni: *mut JNIEnv,
    class_being_redefined: jclass,
    loader: jobject,
    name: *const c_char,
    protection_domain: jobject,
    class_data_len: jint,
    class_data: *const c_uchar,
    new_class_data_len: *mut jint,
    new_class_data: *mut *mut c_uchar,
);

/// `jvmtiEventCallbacks` up to and with `DataDumpRequest` (events 50 to 71). The JVM is told the size of what it is
/// given and takes the rest, which grows from release to release, as not set.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct JvmtiEventCallbacks {
    /// Event 50.
    pub VMInit: Option<VmInit>,
    /// Event 51.
    pub VMDeath: Option<VmDeath>,
    /// Events 52 and 53.
    pub unused_52: [Slot; 2],
    /// Event 54.
    pub ClassFileLoadHook: Option<ClassFileLoadHook>,
    /// Events 55 to 70.
    pub unused_55: [Slot; 16],
    /// Event 71.
    pub DataDumpRequest: Option<DataDumpRequest>,
}

impl JvmtiEventCallbacks {
    /// No callback set.
    pub const fn none() -> Self {
        Self {
            VMInit: None,
            VMDeath: None,
            unused_52: [core::ptr::null_mut(); 2],
            ClassFileLoadHook: None,
            unused_55: [core::ptr::null_mut(); 16],
            DataDumpRequest: None,
        }
    }
}

/// `jvmtiThreadInfo`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct JvmtiThreadInfo {
    /// Its name, in modified UTF-8.
    pub name: *mut c_char,
    /// Its priority.
    pub priority: jint,
    /// Whether it is a daemon.
    pub is_daemon: jboolean,
    /// Its group.
    pub thread_group: jobject,
    /// Its context class loader.
    pub context_class_loader: jobject,
}

impl JvmtiThreadInfo {
    /// Nothing known.
    pub const fn none() -> Self {
        Self {
            name: core::ptr::null_mut(),
            priority: 0,
            is_daemon: false,
            thread_group: core::ptr::null_mut(),
            context_class_loader: core::ptr::null_mut(),
        }
    }
}

/// `jvmtiEnv`: an environment is a pointer to this, which points to the function table.
pub type JvmtiEnv = *const JvmtiInterface;

/// `jvmtiInterface_1`: 156 functions, numbered from 1 in the header. `Option`, because nothing but the JVM's word says
/// that a slot is filled.
#[repr(C)]
#[derive(Debug)]
pub struct JvmtiInterface {
    /// Reserved 1.
    pub reserved_1: Slot,
    /// Function 2. Variadic for future use: nothing is passed behind `thread`, which may be null for every thread.
    pub SetEventNotificationMode: Option<
        unsafe extern "C" fn(
            env: *mut JvmtiEnv,
            mode: JvmtiEventMode,
            event: JvmtiEvent,
            thread: jobject,
            ...
        ) -> JvmtiError,
    >,
    /// Functions 3 to 8.
    pub unused_3: [Slot; 6],
    /// Function 9. A null thread is the current one. The name is the caller's to deallocate, the references are local.
    pub GetThreadInfo: Option<
        unsafe extern "system" fn(env: *mut JvmtiEnv, thread: jobject, info: *mut JvmtiThreadInfo) -> JvmtiError,
    >,
    /// Functions 10 to 45.
    pub unused_10: [Slot; 36],
    /// Function 46.
    pub Allocate:
        Option<unsafe extern "system" fn(env: *mut JvmtiEnv, size: i64, memory: *mut *mut c_uchar) -> JvmtiError>,
    /// Function 47.
    pub Deallocate: Option<unsafe extern "system" fn(env: *mut JvmtiEnv, memory: *mut c_uchar) -> JvmtiError>,
    /// Function 48. Either text may be asked for alone, by a null for the other.
    pub GetClassSignature: Option<
        unsafe extern "system" fn(
            env: *mut JvmtiEnv,
            class: jclass,
            signature: *mut *mut c_char,
            generic: *mut *mut c_char,
        ) -> JvmtiError,
    >,
    /// Functions 49 to 56.
    pub unused_49: [Slot; 8],
    /// Function 57.
    pub GetClassLoader:
        Option<unsafe extern "system" fn(env: *mut JvmtiEnv, class: jclass, loader: *mut jobject) -> JvmtiError>,
    /// Functions 58 to 77.
    pub unused_58: [Slot; 20],
    /// Function 78. The array is the caller's to deallocate, the local references in it to delete.
    pub GetLoadedClasses: Option<
        unsafe extern "system" fn(env: *mut JvmtiEnv, count: *mut jint, classes: *mut *mut jclass) -> JvmtiError,
    >,
    /// Function 79. As function 78, of the classes that a loader can find.
    pub GetClassLoaderClasses: Option<
        unsafe extern "system" fn(
            env: *mut JvmtiEnv,
            loader: jobject,
            count: *mut jint,
            classes: *mut *mut jclass,
        ) -> JvmtiError,
    >,
    /// Functions 80 to 121.
    pub unused_80: [Slot; 42],
    /// Function 122.
    pub SetEventCallbacks: Option<
        unsafe extern "system" fn(
            env: *mut JvmtiEnv,
            callbacks: *const JvmtiEventCallbacks,
            size_bytes: jint,
        ) -> JvmtiError,
    >,
    /// Functions 123 to 126.
    pub unused_123: [Slot; 4],
    /// Function 127.
    pub DisposeEnvironment: Option<unsafe extern "system" fn(env: *mut JvmtiEnv) -> JvmtiError>,
    /// Function 128. The name is the caller's to deallocate.
    pub GetErrorName:
        Option<unsafe extern "system" fn(env: *mut JvmtiEnv, error: JvmtiError, name: *mut *mut c_char) -> JvmtiError>,
    /// Functions 129 and 130.
    pub unused_129: [Slot; 2],
    /// Function 131. The value is the caller's to deallocate.
    pub GetSystemProperty: Option<
        unsafe extern "system" fn(env: *mut JvmtiEnv, property: *const c_char, value: *mut *mut c_char) -> JvmtiError,
    >,
    /// Function 132.
    pub unused_132: Slot,
    /// Function 133.
    pub GetPhase: Option<unsafe extern "system" fn(env: *mut JvmtiEnv, phase: *mut JvmtiPhase) -> JvmtiError>,
    /// Functions 134 to 139.
    pub unused_134: [Slot; 6],
    /// Function 140.
    pub GetPotentialCapabilities:
        Option<unsafe extern "system" fn(env: *mut JvmtiEnv, capabilities: *mut JvmtiCapabilities) -> JvmtiError>,
    /// Reserved 141.
    pub reserved_141: Slot,
    /// Function 142.
    pub AddCapabilities:
        Option<unsafe extern "system" fn(env: *mut JvmtiEnv, capabilities: *const JvmtiCapabilities) -> JvmtiError>,
    /// Functions 143 to 151.
    pub unused_143: [Slot; 9],
    /// Function 152.
    pub RetransformClasses:
        Option<unsafe extern "system" fn(env: *mut JvmtiEnv, count: jint, classes: *const jclass) -> JvmtiError>,
    /// Functions 153 to 156.
    pub unused_153: [Slot; 4],
}
