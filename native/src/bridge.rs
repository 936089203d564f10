//! The bridge from Flink's Java code to the agent: a class in the bootstrap loader with one native method, which every
//! spliced call calls, and what that method does.
//!
//! The class is visible from every class loader. Its name is the same in every version of the agent, so that defining
//! it is the lock between two copies: the JVM lets one define it, and the other learns that it came second.

use std::ffi::c_void;
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use jni::objects::{JClass, JClassLoader};
use jni::strings::JNIString;
use jni::sys::{JNIEnv, jclass, jfieldID, jint, jobject, jsize, jstring};
use jni::{Env, EnvUnowned, NativeMethod, Outcome};
use leaderwatch_agent::leadership::{JobId, SeatKey, SessionId};
use leaderwatch_agent::runtime::Agent;

use crate::classfile::Callee;
use crate::hooks::{self, FieldName, HOOKS, Hook, LONGEST_WAY, Meaning, Seat};
use crate::startup;

/// `leaderwatch.Bridge.on(int hook, Object self, Object id, Object text)`. The references are passed as objects, so
/// that one method serves every hook.
pub const CALLEE: Callee = Callee {
    class: "leaderwatch/Bridge",
    method: "on",
    descriptor: "(ILjava/lang/Object;Ljava/lang/Object;Ljava/lang/Object;)V",
};

/// Most of an address or a name that is read, in characters of Java (UTF-16 units).
const MAX_TEXT_CHARS: usize = 256;

/// Why the bridge could not be built.
#[derive(Debug)]
pub enum BridgeError {
    /// The class is there already: another copy of the agent was first.
    AnotherCopy,
    /// The JVM did not take the class.
    NotDefined,
    /// Another step failed.
    Jni(jni::errors::Error),
    /// A fault of the agent's own code.
    Panic,
}

impl From<jni::errors::Error> for BridgeError {
    fn from(error: jni::errors::Error) -> Self {
        Self::Jni(error)
    }
}

impl fmt::Display for BridgeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AnotherCopy => write!(out, "another copy of the agent is at work in this JVM"),
            Self::NotDefined => write!(out, "the JVM did not take the class {}", CALLEE.class),
            Self::Jni(error) => write!(out, "{error}"),
            Self::Panic => write!(out, "internal fault while the bridge was built"),
        }
    }
}

impl std::error::Error for BridgeError {}

/// Defines the class, binds its native method, and returns the system class loader as a global reference, which is
/// never deleted. From then on a spliced call works. No exception is left pending.
///
/// # Safety
/// `jni` must be the current thread's environment, in the live phase.
pub unsafe fn build(jni: *mut JNIEnv) -> Result<jobject, BridgeError> {
    // SAFETY: `jni` is valid by this function's contract, and does not leave this frame.
    let mut environment = unsafe { EnvUnowned::from_raw(jni) };
    let outcome = environment.with_env(|env| {
        let built = build_in(env);
        env.exception_clear();
        built
    });
    match outcome.into_outcome() {
        Outcome::Ok(loader) => Ok(loader),
        Outcome::Err(error) => Err(error),
        Outcome::Panic(_) => Err(BridgeError::Panic),
    }
}

fn build_in(env: &mut Env<'_>) -> Result<jobject, BridgeError> {
    let loader = JClassLoader::get_system_class_loader(env)?;
    let loader = env.new_global_ref(loader)?;
    let class = define(env)?;
    let (name, descriptor) = (JNIString::from(CALLEE.method), JNIString::from(CALLEE.descriptor));
    // SAFETY: `on` has the parameters of the descriptor, in front of them the environment and the class, as a static
    // native method has.
    unsafe {
        let method = NativeMethod::from_raw_parts(&name, &descriptor, on as *mut c_void);
        env.register_native_methods(&class, &[method])?;
    }
    Ok(loader.into_raw())
}

/// By the raw function, because `Env::define_class` does not tell a duplicate from other failures.
fn define<'local>(env: &mut Env<'local>) -> Result<JClass<'local>, BridgeError> {
    let name = JNIString::from(CALLEE.class);
    let bytes = class_bytes();
    let jni = env.get_raw();
    // SAFETY: the name ends with a null, the bytes have that length (some 150), a null loader is the bootstrap loader.
    let class = unsafe {
        ((**jni).v1_1.DefineClass)(jni, name.as_ptr(), ptr::null_mut(), bytes.as_ptr().cast(), bytes.len() as jsize)
    };
    if !class.is_null() {
        // SAFETY: a local reference to a class, of this frame.
        return Ok(unsafe { JClass::from_raw(env, class) });
    }
    env.exception_clear();
    let is_there = env.find_class(&name).is_ok();
    env.exception_clear();
    Err(if is_there { BridgeError::AnotherCopy } else { BridgeError::NotDefined })
}

/// The class file of the bridge:
///
/// ```java
/// package leaderwatch;
/// public final class Bridge {
///     public static native void on(int hook, Object self, Object id, Object text);
/// }
/// ```
fn class_bytes() -> Vec<u8> {
    const JAVA_8: u16 = 52;
    const PUBLIC_FINAL_SUPER: u16 = 0x0031;
    const PUBLIC_STATIC_NATIVE: u16 = 0x0109;
    const UTF8: u8 = 1;
    const CLASS: u8 = 7;
    let mut bytes = 0xcafe_babe_u32.to_be_bytes().to_vec();
    let u2 = |bytes: &mut Vec<u8>, values: &[u16]| bytes.extend(values.iter().flat_map(|value| value.to_be_bytes()));
    u2(&mut bytes, &[0, JAVA_8, 7]); // minor version, major version, constants + 1
    for text in [CALLEE.class, "java/lang/Object", CALLEE.method, CALLEE.descriptor] {
        bytes.push(UTF8); // constants 1 to 4
        u2(&mut bytes, &[text.len() as u16]);
        bytes.extend_from_slice(text.as_bytes());
    }
    for name in [1, 2] {
        bytes.push(CLASS); // constants 5 and 6
        u2(&mut bytes, &[name]);
    }
    u2(&mut bytes, &[PUBLIC_FINAL_SUPER, 5, 6, 0, 0]); // this, super, interfaces, fields
    u2(&mut bytes, &[1, PUBLIC_STATIC_NATIVE, 3, 4, 0]); // one method: name, descriptor, attributes
    u2(&mut bytes, &[0]); // attributes
    bytes
}

/// The native method. Runs in Flink's thread: it never throws, never blocks, never panics out.
extern "system" fn on(jni: *mut JNIEnv, _class: jclass, number: jint, this: jobject, id: jobject, text: jobject) {
    crate::guarded(|| {
        let Ok(number) = usize::try_from(number) else { return };
        let (Some(hook), Some(agent)) = (HOOKS.get(number), startup::agent()) else { return };
        // SAFETY: the JVM passes its environment and references that are valid for this call; their types are those of
        // the hooked method, which was matched by its descriptor.
        let outcome = unsafe { Call { jni, hook, number, this, id, text }.tell(agent) };
        if outcome.is_none() {
            startup::hook_states().refused(hook.class, format!("{}: its arguments cannot be read", hook.method));
        }
    });
}

/// One spliced call.
struct Call {
    jni: *mut JNIEnv,
    hook: &'static Hook,
    number: usize,
    this: jobject,
    id: jobject,
    text: jobject,
}

impl Call {
    /// Tells the agent; none where the objects are not what this version of the agent knows.
    ///
    /// # Safety
    /// The environment must be this thread's, and the references valid and of the hook's types.
    unsafe fn tell(&self, agent: &Agent) -> Option<()> {
        // SAFETY: by this function's contract, which is that of the functions called.
        unsafe {
            match self.hook.meaning {
                Meaning::Unreachable(verdict) => agent.unreachable(verdict),
                Meaning::Reachable => agent.reachable(),
                Meaning::Leader(seat) if self.id.is_null() => agent.observe(self.seat(seat)?, None),
                Meaning::Leader(seat) => {
                    let (seat, id) = (self.seat(seat)?, self.session_id()?);
                    if !agent.is_led_by(seat, id) {
                        let address = JavaText::read(self.jni, self.text);
                        agent.observe(seat, Some((id, address.as_ref().map(JavaText::as_str))));
                    }
                }
                Meaning::LeaderByAddress => return self.tell_by_address(agent),
                Meaning::Granted(seat) => agent.granted(self.seat(seat)?, self.session_id()?),
                Meaning::Revoked(seat) => agent.revoked(self.seat(seat)?),
                Meaning::JobNamed => {
                    // The first object is the id itself.
                    let (job, name) = (self.job_id(&[])?, JavaText::read(self.jni, self.text));
                    agent.job_named(job, name.as_ref().map(JavaText::as_str).unwrap_or_default());
                }
            }
        }
        Some(())
    }

    /// A call without a leader names no component, so it says nothing; nor does one about another kind of endpoint.
    ///
    /// # Safety
    /// As [`Call::tell`].
    unsafe fn tell_by_address(&self, agent: &Agent) -> Option<()> {
        if self.id.is_null() {
            return Some(());
        }
        // SAFETY: by this function's contract.
        let (id, address) = unsafe { (self.session_id()?, JavaText::read(self.jni, self.text)) };
        let address = address.as_ref().map(JavaText::as_str);
        if let Some(component) = address.and_then(hooks::component_of) {
            agent.observe(SeatKey::cluster(component), Some((id, address)));
        }
        Some(())
    }

    /// # Safety
    /// As [`Call::tell`].
    unsafe fn seat(&self, seat: Seat) -> Option<SeatKey> {
        match seat {
            Seat::Cluster(component) => Some(SeatKey::cluster(component)),
            // SAFETY: by this function's contract.
            Seat::Job(way) => unsafe { self.job_id(way) }.map(SeatKey::job),
        }
    }

    /// # Safety
    /// As [`Call::tell`].
    unsafe fn job_id(&self, way: &[FieldName]) -> Option<JobId> {
        static WAYS: [[Field; LONGEST_WAY]; HOOKS.len()] =
            [const { [const { Field::new() }; LONGEST_WAY] }; HOOKS.len()];
        static LOWER: Field = Field::new();
        static UPPER: Field = Field::new();
        let jni = self.jni;
        let mut object = self.this;
        // SAFETY: `this` is valid by this function's contract, the others are what the fields held. Their local
        // references, three at most, end with the native method.
        unsafe {
            for (field, name) in WAYS.get(self.number)?.iter().zip(way) {
                object = field.object_of(jni, object, *name)?;
            }
            // `JobID` is final: by the descriptor of the field, or of the method, it is one.
            let lower = LOWER.long_of(jni, object, FieldName { name: c"lowerPart", descriptor: c"J" })?;
            let upper = UPPER.long_of(jni, object, FieldName { name: c"upperPart", descriptor: c"J" })?;
            Some(JobId::from_abstract_id(lower, upper))
        }
    }

    /// None also where the id is null.
    ///
    /// # Safety
    /// As [`Call::tell`].
    unsafe fn session_id(&self) -> Option<SessionId> {
        static MOST: Field = Field::new();
        static LEAST: Field = Field::new();
        // SAFETY: by this function's contract; `UUID` is final, and by the descriptor of the method it is one.
        unsafe {
            let most = MOST.long_of(self.jni, self.id, FieldName { name: c"mostSigBits", descriptor: c"J" })?;
            let least = LEAST.long_of(self.jni, self.id, FieldName { name: c"leastSigBits", descriptor: c"J" })?;
            Some(SessionId::from_uuid_halves(most, least))
        }
    }
}

/// A field that is looked up at its first use, in the class of the first object. Its id stays valid because the class is
/// never unloaded: a global reference holds it.
struct Field(AtomicPtr<FoundField>);

struct FoundField {
    class: jclass,
    id: jfieldID,
}

impl Field {
    const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The value of a field that holds a long; none where the object is null or has no such field.
    ///
    /// # Safety
    /// `object` must be null or a valid reference to an object of one class in all calls, which nothing extends; `name`
    /// must be the same in every call and have the descriptor of a long.
    unsafe fn long_of(&self, jni: *mut JNIEnv, object: jobject, name: FieldName) -> Option<u64> {
        if object.is_null() {
            return None;
        }
        // SAFETY: the id is of the object's class, and the descriptor with which it was found says long.
        let value = unsafe { ((**jni).v1_1.GetLongField)(jni, object, (*self.found(jni, object, name)?).id) };
        Some(value.cast_unsigned())
    }

    /// The value of a field that holds an object, as a new local reference; none where the object is null or has no such
    /// field. The value may be null.
    ///
    /// # Safety
    /// `object` must be null or a valid reference; `name` must be the same in every call and have the descriptor of an
    /// object.
    unsafe fn object_of(&self, jni: *mut JNIEnv, object: jobject, name: FieldName) -> Option<jobject> {
        // SAFETY: the id is of the object's class, and the descriptor with which it was found says object.
        Some(unsafe { ((**jni).v1_1.GetObjectField)(jni, object, self.id(jni, object, name)?) })
    }

    /// The field's id, which is one for this object: its class is the one in which the field was found, or extends it.
    ///
    /// # Safety
    /// `object` must be null or a valid reference, and `name` the same in every call.
    unsafe fn id(&self, jni: *mut JNIEnv, object: jobject, name: FieldName) -> Option<jfieldID> {
        if object.is_null() {
            return None;
        }
        // SAFETY: `object` is valid by this function's contract; what is found is never freed once it is stored.
        unsafe {
            let found = self.found(jni, object, name)?;
            ((**jni).v1_1.IsInstanceOf)(jni, object, (*found).class).then_some((*found).id)
        }
    }

    /// The field as it was found in the first object.
    ///
    /// # Safety
    /// `object` must be a valid reference, not null, and `name` the same in every call.
    unsafe fn found(&self, jni: *mut JNIEnv, object: jobject, name: FieldName) -> Option<*mut FoundField> {
        let found = self.0.load(Ordering::Acquire);
        if !found.is_null() {
            return Some(found);
        }
        // SAFETY: by this function's contract.
        Some(self.store(unsafe { find(jni, object, name)? }))
    }

    /// Two threads may both find the field. The second's is then left over: some bytes, once.
    fn store(&self, found: FoundField) -> *mut FoundField {
        let found = Box::into_raw(Box::new(found));
        match self.0.compare_exchange(ptr::null_mut(), found, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => found,
            Err(first) => first,
        }
    }
}

/// Looks a field up; none, and no exception pending, where the object's class has no such field.
///
/// # Safety
/// `object` must be a valid reference, not null.
unsafe fn find(jni: *mut JNIEnv, object: jobject, name: FieldName) -> Option<FoundField> {
    // SAFETY: `object` is valid by this function's contract; the texts end with a null; the exception that a failed
    // look-up throws is cleared before anything else is called.
    unsafe {
        let class = ((**jni).v1_1.GetObjectClass)(jni, object);
        let id = ((**jni).v1_1.GetFieldID)(jni, class, name.name.as_ptr(), name.descriptor.as_ptr());
        if id.is_null() {
            ((**jni).v1_1.ExceptionClear)(jni);
            return None;
        }
        let class = ((**jni).v1_1.NewGlobalRef)(jni, class);
        (!class.is_null()).then_some(FoundField { class, id })
    }
}

/// The beginning of a Java string, on the stack, as UTF-8.
struct JavaText {
    /// One UTF-16 unit is at most three bytes of UTF-8.
    bytes: [u8; MAX_TEXT_CHARS * 3],
    length: usize,
}

impl JavaText {
    /// The first 256 characters of a Java string; none where it is null.
    ///
    /// # Safety
    /// `text` must be null or a valid reference to a string.
    unsafe fn read(jni: *mut JNIEnv, text: jstring) -> Option<Self> {
        if text.is_null() {
            return None;
        }
        let mut units = [0; MAX_TEXT_CHARS];
        // SAFETY: `text` is valid by this function's contract, and no more than its length and than there is room for
        // is copied, so no exception is thrown.
        let length = unsafe {
            let length = ((**jni).v1_1.GetStringLength)(jni, text).clamp(0, MAX_TEXT_CHARS as jsize);
            ((**jni).v1_2.GetStringRegion)(jni, text, 0, length, units.as_mut_ptr());
            length as usize
        };
        Some(Self::from_utf16(&units[..length]))
    }

    /// A half of a pair becomes U+FFFD, but at the end it is left out: that is where a pair may have been cut.
    fn from_utf16(units: &[u16]) -> Self {
        let mut text = Self { bytes: [0; MAX_TEXT_CHARS * 3], length: 0 };
        let mut characters = char::decode_utf16(units.iter().copied()).peekable();
        while let Some(character) = characters.next() {
            if character.is_err() && characters.peek().is_none() {
                break;
            }
            let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
            let encoded = character.encode_utf8(&mut text.bytes[text.length..]).len();
            text.length += encoded;
        }
        text
    }

    fn as_str(&self) -> &str {
        // Whole characters were put in, so nothing is ever left out here.
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn utf16(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    #[test]
    fn the_class_is_what_the_jvm_specification_asks_for() {
        let bytes = class_bytes();
        let class = cafebabe::parse_class(&bytes).unwrap();
        assert_eq!(&*class.this_class, CALLEE.class);
        assert_eq!(class.super_class.as_deref(), Some("java/lang/Object"));
        assert_eq!(class.major_version, 52);
        let [method] = class.methods.as_slice() else { panic!("one method") };
        assert_eq!(&*method.name, CALLEE.method);
        assert_eq!(method.descriptor.to_string(), CALLEE.descriptor);
        assert_eq!(method.access_flags.bits(), 0x0109);
    }

    #[test]
    fn a_text_is_read_whatever_its_characters() {
        for text in ["", "pekko.tcp://flink@jm-0:6123/user/rpc/jobmanager_2", "jöb-マネージャ-🦀", "a\0b"] {
            assert_eq!(JavaText::from_utf16(&utf16(text)).as_str(), text);
        }
    }

    #[test]
    fn the_widest_characters_fit() {
        let text = "マ".repeat(MAX_TEXT_CHARS);
        assert_eq!(JavaText::from_utf16(&utf16(&text)).as_str(), text);
    }

    #[test]
    fn half_a_pair_is_replaced_and_a_cut_one_left_out() {
        assert_eq!(JavaText::from_utf16(&[0x61, 0xd83e, 0x62]).as_str(), "a\u{fffd}b");
        assert_eq!(JavaText::from_utf16(&[0x61, 0xd83e]).as_str(), "a");
    }
}
