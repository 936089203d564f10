//! The method-entry rewrite: puts one call of a static method in front of a method's first instruction.
//!
//! What is put in front is always 8 bytes long:
//!
//! ```text
//! bipush       HOOK          which hook this is
//! aload_N | aconst_null      first argument
//! aload_N | aconst_null      second argument
//! aload_N | aconst_null      third argument
//! invokestatic CALLEE
//! ```
//!
//! A multiple of 4 keeps the padding of `tableswitch` and `lookupswitch` right, and every branch is relative, so no
//! instruction needs to be decoded. Constants are only appended, so no index changes. What holds positions in the code
//! moves by 8: exception table, line numbers, local variables, stack map, type annotations. A loop that jumps back to
//! the old first instruction jumps behind the call, so the call is made once an invocation.
//!
//! Whatever is not understood to the last byte is a [`Refusal`], and the class stays as it is. Structures are those of
//! the Java Virtual Machine Specification, chapter 4; section numbers below are of the edition for Java SE 25.

use std::fmt;

/// Length in bytes of what is put in front of the method.
const CALL_LENGTH: u16 = 8;
/// Stack that the call needs: an int and three references. The stack is empty at method entry.
const CALL_STACK: u16 = 4;
/// JVMS 4.7.3: the code of a method is shorter than 65536 bytes.
const MAX_CODE_LENGTH: u32 = 65_535;
/// Annotations may hold annotations; what nests deeper than any compiler writes is refused, for the stack's sake.
const MAX_ANNOTATION_DEPTH: u8 = 32;

/// The static method that is called. Its descriptor must be `(I` and three reference types `)V`.
#[derive(Debug, Clone, Copy)]
pub struct Callee {
    /// Internal name of its class.
    pub class: &'static str,
    /// Its name.
    pub method: &'static str,
    /// Its descriptor.
    pub descriptor: &'static str,
}

/// What is passed to the callee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    /// `null`.
    Null,
    /// The reference in a local variable, 0 to 3. At method entry these are `this` and the arguments.
    Local(u8),
}

impl Argument {
    fn instruction(self) -> u8 {
        const ACONST_NULL: u8 = 0x01;
        const ALOAD_0: u8 = 0x2a;
        match self {
            Argument::Null => ACONST_NULL,
            Argument::Local(index) => ALOAD_0 + index.min(3),
        }
    }
}

/// Which method gets the call, and what it passes.
#[derive(Debug, Clone, Copy)]
pub struct Splice<'a> {
    /// Name of the method.
    pub method: &'a str,
    /// Descriptor of the method: an overload is another method.
    pub descriptor: &'a str,
    /// Number of the hook, the callee's first argument; 0 to 127.
    pub hook: u8,
    /// The three references passed. The locals must hold references at method entry.
    pub arguments: [Argument; 3],
}

/// Why a class was left as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The bytes do not begin as a class file does.
    NotAClassFile,
    /// The bytes end, or a structure inside them does, before what it announces; or more follows than it announces.
    BadLength,
    /// A constant has a tag that the specification does not have.
    UnknownConstant(u8),
    /// An index does not lead to a constant of the kind that is needed.
    BadConstantIndex(u16),
    /// The class is `java/lang/Object`: rewriting it crashes the JVM at start (measured on JDK 17 and 25).
    Untouchable,
    /// The class has no method of that name.
    NoSuchMethod,
    /// The class has a method of that name, but with this descriptor.
    OtherDescriptor(String),
    /// The method is abstract or native.
    NoCode,
    /// The method calls the callee already.
    AlreadyCalls,
    /// The method would be longer than 65535 bytes.
    CodeTooLong,
    /// There is no room for six more constants.
    ConstantPoolFull,
    /// A position would not fit into its 16 bits.
    PositionTooLarge,
    /// The code has an attribute that may hold positions in a way not known here.
    UnknownCodeAttribute(String),
    /// A stack map frame has a tag that the specification does not have.
    UnknownFrame(u8),
    /// A verification type has a tag that the specification does not have.
    UnknownVerificationType(u8),
    /// A type annotation has a tag that the specification does not have, or nests too deep.
    UnknownAnnotation(u8),
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotAClassFile => write!(out, "not a class file"),
            Refusal::BadLength => write!(out, "a structure of the class file has a wrong length"),
            Refusal::UnknownConstant(tag) => write!(out, "unknown constant, tag {tag}"),
            Refusal::BadConstantIndex(index) => write!(out, "constant {index} is not what is needed"),
            Refusal::Untouchable => write!(out, "java/lang/Object is never rewritten"),
            Refusal::NoSuchMethod => write!(out, "the class has no such method"),
            Refusal::OtherDescriptor(found) => write!(out, "the method has the descriptor `{found}` in this class"),
            Refusal::NoCode => write!(out, "the method is abstract or native"),
            Refusal::AlreadyCalls => write!(out, "hooked already"),
            Refusal::CodeTooLong => write!(out, "the method is too long to take 8 more bytes"),
            Refusal::ConstantPoolFull => write!(out, "the constant pool is full"),
            Refusal::PositionTooLarge => write!(out, "a position in the code would not fit into 16 bits"),
            Refusal::UnknownCodeAttribute(name) => write!(out, "unknown code attribute `{name}`"),
            Refusal::UnknownFrame(tag) => write!(out, "unknown stack map frame, tag {tag}"),
            Refusal::UnknownVerificationType(tag) => write!(out, "unknown verification type, tag {tag}"),
            Refusal::UnknownAnnotation(tag) => write!(out, "unknown type annotation, tag {tag}"),
        }
    }
}

impl std::error::Error for Refusal {}

impl Refusal {
    /// Whether the method is not there, by name or by descriptor.
    pub fn is_missing_method(&self) -> bool {
        matches!(self, Refusal::NoSuchMethod | Refusal::OtherDescriptor(_))
    }
}

/// Whether a class says itself that it implements an interface, by its internal name. False where it cannot be read.
pub fn implements(class_file: &[u8], interface: &str) -> bool {
    let says_so = || -> Result<bool, Refusal> {
        let mut input = Reader::new(class_file);
        input.skip(8)?; // magic number, versions
        let pool = Pool::read(&mut input)?;
        input.skip(6)?; // access flags, this class, super class
        for _ in 0..input.u2()? {
            if pool.class_name(input.u2()?)? == interface.as_bytes() {
                return Ok(true);
            }
        }
        Ok(false)
    };
    says_so().unwrap_or(false)
}

/// The class file with the call put in front of the method; or why it is left as it is.
pub fn rewrite(class_file: &[u8], splice: &Splice<'_>, callee: &Callee) -> Result<Vec<u8>, Refusal> {
    let mut input = Reader::new(class_file);
    if input.u4()? != 0xcafe_babe {
        return Err(Refusal::NotAClassFile);
    }
    input.skip(4)?; // versions
    let pool_start = input.at;
    let pool = Pool::read(&mut input)?;
    let pool_end = input.at;
    input.skip(2)?; // access flags
    if pool.class_name(input.u2()?)? == b"java/lang/Object" {
        return Err(Refusal::Untouchable);
    }
    let code = find_code(&mut input, &pool, splice)?;

    let mut constants = Appended::new(&pool);
    let target = constants.callee(callee)?;
    if pool.methods_of(callee.class.as_bytes()).any(|index| code.contains_call(index)) {
        return Err(Refusal::AlreadyCalls);
    }
    let call = call_bytes(splice, target);
    let new_code = code.with_call(&call, &pool)?;

    let mut output = Vec::with_capacity(class_file.len() + constants.bytes.len() + 64);
    output.extend_from_slice(&class_file[..pool_start]);
    output.extend_from_slice(&constants.count.to_be_bytes());
    output.extend_from_slice(&class_file[pool_start + 2..pool_end]);
    output.extend_from_slice(&constants.bytes);
    output.extend_from_slice(&class_file[pool_end..code.length_at]);
    put_sized(&mut output, &new_code)?;
    output.extend_from_slice(&class_file[code.end..]);
    Ok(output)
}

fn call_bytes(splice: &Splice<'_>, target: u16) -> [u8; CALL_LENGTH as usize] {
    const BIPUSH: u8 = 0x10;
    const INVOKESTATIC: u8 = 0xb8;
    let [first, second, third] = splice.arguments.map(Argument::instruction);
    let [high, low] = target.to_be_bytes();
    [BIPUSH, splice.hook & 0x7f, first, second, third, INVOKESTATIC, high, low]
}

/// Walks fields and methods up to the code of the method sought. The reader stands behind `this_class`.
fn find_code<'a>(input: &mut Reader<'a>, pool: &Pool<'a>, splice: &Splice<'_>) -> Result<Code<'a>, Refusal> {
    input.skip(2)?; // super class
    let interfaces = input.u2()?;
    input.skip(usize::from(interfaces) * 2)?;
    for _ in 0..input.u2()? {
        input.skip(6)?; // field: access flags, name, descriptor
        skip_attributes(input)?;
    }
    let mut other_descriptor = None;
    for _ in 0..input.u2()? {
        input.skip(2)?; // method: access flags
        let (name, descriptor) = (pool.utf8(input.u2()?)?, pool.utf8(input.u2()?)?);
        if name != splice.method.as_bytes() || descriptor != splice.descriptor.as_bytes() {
            if name == splice.method.as_bytes() {
                other_descriptor = Some(String::from_utf8_lossy(descriptor).into_owned());
            }
            skip_attributes(input)?;
            continue;
        }
        for _ in 0..input.u2()? {
            let attribute_name = input.u2()?;
            let length_at = input.at;
            let body = input.sized()?;
            if pool.utf8(attribute_name)? == b"Code" {
                return Code::read(body, length_at);
            }
        }
        return Err(Refusal::NoCode);
    }
    Err(other_descriptor.map_or(Refusal::NoSuchMethod, Refusal::OtherDescriptor))
}

fn skip_attributes(input: &mut Reader<'_>) -> Result<(), Refusal> {
    for _ in 0..input.u2()? {
        input.skip(2)?;
        input.sized()?;
    }
    Ok(())
}

/// A `Code` attribute (JVMS 4.7.3), cut into its parts.
struct Code<'a> {
    /// Where in the class file its length stands.
    length_at: usize,
    /// Where in the class file it ends.
    end: usize,
    max_stack: u16,
    max_locals: u16,
    instructions: &'a [u8],
    /// Entries of the exception table: start, end, handler, type.
    exceptions: &'a [u8],
    /// Behind the exception table: the count of attributes, and these.
    attributes: &'a [u8],
}

impl<'a> Code<'a> {
    fn read(body: &'a [u8], length_at: usize) -> Result<Self, Refusal> {
        let mut input = Reader::new(body);
        let (max_stack, max_locals) = (input.u2()?, input.u2()?);
        let instructions = input.sized()?;
        let exceptions = usize::from(input.u2()?) * 8;
        Ok(Self {
            length_at,
            end: length_at + 4 + body.len(),
            max_stack,
            max_locals,
            instructions,
            exceptions: input.take(exceptions)?,
            attributes: &body[input.at..],
        })
    }

    /// Whether these bytes hold an `invokestatic` of that method. Instructions are not decoded: an operand that looks
    /// the same is possible only in a class that refers to the bridge at all.
    fn contains_call(&self, method: u16) -> bool {
        let [high, low] = method.to_be_bytes();
        self.instructions.windows(3).any(|bytes| bytes == [0xb8, high, low])
    }

    /// The body of the new attribute.
    fn with_call(&self, call: &[u8], pool: &Pool<'_>) -> Result<Vec<u8>, Refusal> {
        let new_length = self.instructions.len() + call.len();
        let new_length = u32::try_from(new_length).map_err(|_| Refusal::CodeTooLong)?;
        if new_length > MAX_CODE_LENGTH {
            return Err(Refusal::CodeTooLong);
        }
        let mut output = Vec::with_capacity(self.end - self.length_at + 64);
        put_u2(&mut output, self.max_stack.max(CALL_STACK));
        put_u2(&mut output, self.max_locals);
        output.extend_from_slice(&new_length.to_be_bytes());
        output.extend_from_slice(call);
        output.extend_from_slice(self.instructions);
        self.move_exceptions(&mut output)?;
        self.move_attributes(&mut output, pool)?;
        Ok(output)
    }

    fn move_exceptions(&self, output: &mut Vec<u8>) -> Result<(), Refusal> {
        let mut input = Reader::new(self.exceptions);
        put_u2(output, u16::try_from(self.exceptions.len() / 8).map_err(|_| Refusal::BadLength)?);
        while !input.is_at_end() {
            for _position in ["start", "end", "handler"] {
                put_u2(output, moved(input.u2()?)?);
            }
            put_u2(output, input.u2()?);
        }
        Ok(())
    }

    fn move_attributes(&self, output: &mut Vec<u8>, pool: &Pool<'_>) -> Result<(), Refusal> {
        let mut input = Reader::new(self.attributes);
        let count = input.u2()?;
        put_u2(output, count);
        for _ in 0..count {
            let name = input.u2()?;
            let body = input.sized()?;
            put_u2(output, name);
            put_sized(output, &move_attribute(pool.utf8(name)?, body)?)?;
        }
        input.expect_end()
    }
}

fn move_attribute(name: &[u8], body: &[u8]) -> Result<Vec<u8>, Refusal> {
    let mut input = Reader::new(body);
    let mut output = Vec::with_capacity(body.len() + 4);
    match name {
        b"LineNumberTable" => move_line_numbers(&mut input, &mut output)?,
        b"LocalVariableTable" | b"LocalVariableTypeTable" => move_local_variables(&mut input, &mut output)?,
        b"StackMapTable" => move_stack_map(&mut input, &mut output)?,
        b"RuntimeVisibleTypeAnnotations" | b"RuntimeInvisibleTypeAnnotations" => {
            move_type_annotations(&mut input, &mut output)?;
        }
        _ => return Err(Refusal::UnknownCodeAttribute(String::from_utf8_lossy(name).into_owned())),
    }
    input.expect_end()?;
    Ok(output)
}

/// JVMS 4.7.12. The line at the old first instruction now begins at the call, so that a stack trace from inside the
/// call, too, names it.
fn move_line_numbers(input: &mut Reader<'_>, output: &mut Vec<u8>) -> Result<(), Refusal> {
    let count = copy_u2(input, output)?;
    for _ in 0..count {
        let start = input.u2()?;
        put_u2(output, if start == 0 { 0 } else { moved(start)? });
        copy_u2(input, output)?; // line number
    }
    Ok(())
}

/// JVMS 4.7.13 and 4.7.14.
fn move_local_variables(input: &mut Reader<'_>, output: &mut Vec<u8>) -> Result<(), Refusal> {
    let count = copy_u2(input, output)?;
    for _ in 0..count {
        move_range(input, output)?;
        copy(input, output, 6)?; // name, descriptor or signature, index
    }
    Ok(())
}

/// A variable that lives from the method's start (`this`, the arguments) now lives through the call, too.
fn move_range(input: &mut Reader<'_>, output: &mut Vec<u8>) -> Result<(), Refusal> {
    let (start, length) = (input.u2()?, input.u2()?);
    let (start, length) = if start == 0 { (0, moved(length)?) } else { (moved(start)?, length) };
    put_u2(output, start);
    put_u2(output, length);
    Ok(())
}

/// JVMS 4.7.4. Each frame's position is a distance from the frame before, so only the first one's moves.
fn move_stack_map(input: &mut Reader<'_>, output: &mut Vec<u8>) -> Result<(), Refusal> {
    let count = copy_u2(input, output)?;
    for index in 0..count {
        let distance = if index == 0 { CALL_LENGTH } else { 0 };
        move_frame(input, output, distance)?;
    }
    Ok(())
}

fn move_frame(input: &mut Reader<'_>, output: &mut Vec<u8>, distance: u16) -> Result<(), Refusal> {
    const SAME_LOCALS_1: u8 = 64;
    const SAME_LOCALS_1_EXTENDED: u8 = 247;
    const SAME_EXTENDED: u8 = 251;
    let tag = input.u1()?;
    match tag {
        0..=63 => {
            put_frame_start(output, 0, SAME_EXTENDED, u16::from(tag) + distance);
            Ok(())
        }
        64..=127 => {
            put_frame_start(output, SAME_LOCALS_1, SAME_LOCALS_1_EXTENDED, u16::from(tag - SAME_LOCALS_1) + distance);
            move_verification_types(input, output, 1)
        }
        247..=255 => {
            output.push(tag);
            put_u2(output, input.u2()?.checked_add(distance).ok_or(Refusal::PositionTooLarge)?);
            match tag {
                SAME_LOCALS_1_EXTENDED => move_verification_types(input, output, 1),
                248..=251 => Ok(()), // chop, and same_frame_extended
                252..=254 => move_verification_types(input, output, u16::from(tag - SAME_EXTENDED)),
                _ => {
                    let locals = copy_u2(input, output)?;
                    move_verification_types(input, output, locals)?;
                    let stack = copy_u2(input, output)?;
                    move_verification_types(input, output, stack)
                }
            }
        }
        _ => Err(Refusal::UnknownFrame(tag)),
    }
}

/// The short form of a frame holds a distance of up to 63 in its tag; beyond, it needs the extended form.
fn put_frame_start(output: &mut Vec<u8>, short_tag: u8, extended_tag: u8, distance: u16) {
    match u8::try_from(distance) {
        Ok(distance @ 0..=63) => output.push(short_tag + distance),
        _ => {
            output.push(extended_tag);
            put_u2(output, distance);
        }
    }
}

fn move_verification_types(input: &mut Reader<'_>, output: &mut Vec<u8>, count: u16) -> Result<(), Refusal> {
    for _ in 0..count {
        let tag = copy_u1(input, output)?;
        match tag {
            0..=6 => {}
            7 => drop(copy_u2(input, output)?),       // object: a class
            8 => put_u2(output, moved(input.u2()?)?), // uninitialized: position of its `new`
            _ => return Err(Refusal::UnknownVerificationType(tag)),
        }
    }
    Ok(())
}

/// JVMS 4.7.20 and 4.7.21.
fn move_type_annotations(input: &mut Reader<'_>, output: &mut Vec<u8>) -> Result<(), Refusal> {
    let count = copy_u2(input, output)?;
    for _ in 0..count {
        move_annotation_target(input, output)?;
        let path_length = copy_u1(input, output)?;
        copy(input, output, usize::from(path_length) * 2)?;
        copy_annotation(input, output, 0)?;
    }
    Ok(())
}

/// JVMS 4.7.20.1. Only targets 0x40 and above belong into code; javac has put others there, which hold no position.
fn move_annotation_target(input: &mut Reader<'_>, output: &mut Vec<u8>) -> Result<(), Refusal> {
    let tag = copy_u1(input, output)?;
    match tag {
        0x13..=0x15 => Ok(()),
        0x00 | 0x01 | 0x16 => copy(input, output, 1),
        0x10..=0x12 | 0x17 | 0x42 => copy(input, output, 2),
        0x40 | 0x41 => {
            let count = copy_u2(input, output)?;
            for _ in 0..count {
                move_range(input, output)?;
                copy(input, output, 2)?; // index
            }
            Ok(())
        }
        0x43..=0x46 => {
            put_u2(output, moved(input.u2()?)?);
            Ok(())
        }
        0x47..=0x4b => {
            put_u2(output, moved(input.u2()?)?);
            copy(input, output, 1) // which type argument
        }
        _ => Err(Refusal::UnknownAnnotation(tag)),
    }
}

/// JVMS 4.7.16: holds no position, but has no length of its own, so it is walked.
fn copy_annotation(input: &mut Reader<'_>, output: &mut Vec<u8>, depth: u8) -> Result<(), Refusal> {
    copy(input, output, 2)?; // type
    let pairs = copy_u2(input, output)?;
    for _ in 0..pairs {
        copy(input, output, 2)?; // name
        copy_element_value(input, output, depth)?;
    }
    Ok(())
}

/// JVMS 4.7.16.1.
fn copy_element_value(input: &mut Reader<'_>, output: &mut Vec<u8>, depth: u8) -> Result<(), Refusal> {
    let tag = copy_u1(input, output)?;
    if depth == MAX_ANNOTATION_DEPTH {
        return Err(Refusal::UnknownAnnotation(tag));
    }
    match tag {
        b'B' | b'C' | b'D' | b'F' | b'I' | b'J' | b'S' | b'Z' | b's' | b'c' => copy(input, output, 2),
        b'e' => copy(input, output, 4),
        b'@' => copy_annotation(input, output, depth + 1),
        b'[' => {
            let count = copy_u2(input, output)?;
            for _ in 0..count {
                copy_element_value(input, output, depth + 1)?;
            }
            Ok(())
        }
        _ => Err(Refusal::UnknownAnnotation(tag)),
    }
}

/// A constant pool (JVMS 4.4): where each constant stands.
struct Pool<'a> {
    bytes: &'a [u8],
    /// Positions of the constants' tags; 0 for index 0 and for the second place of a long or double.
    positions: Vec<usize>,
}

const UTF8: u8 = 1;
const CLASS: u8 = 7;
const METHODREF: u8 = 10;
const NAME_AND_TYPE: u8 = 12;

impl<'a> Pool<'a> {
    fn read(input: &mut Reader<'a>) -> Result<Self, Refusal> {
        let count = usize::from(input.u2()?);
        let mut positions = Vec::with_capacity(count);
        positions.push(0);
        while positions.len() < count {
            positions.push(input.at);
            let tag = input.u1()?;
            match tag {
                UTF8 => {
                    let length = input.u2()?;
                    input.skip(usize::from(length))?;
                }
                CLASS | 8 | 16 | 19 | 20 => input.skip(2)?,
                15 => input.skip(3)?,
                3 | 4 | 9 | METHODREF | 11 | NAME_AND_TYPE | 17 | 18 => input.skip(4)?,
                5 | 6 => {
                    input.skip(8)?;
                    positions.push(0);
                }
                _ => return Err(Refusal::UnknownConstant(tag)),
            }
        }
        if positions.len() != count {
            return Err(Refusal::BadLength);
        }
        Ok(Self { bytes: input.bytes, positions })
    }

    /// A reader behind the tag of that constant.
    fn constant(&self, index: u16, tag: u8) -> Result<Reader<'a>, Refusal> {
        let position = self.positions.get(usize::from(index)).copied().filter(|position| *position != 0);
        let mut input = Reader { bytes: self.bytes, at: position.ok_or(Refusal::BadConstantIndex(index))? };
        if input.u1()? != tag {
            return Err(Refusal::BadConstantIndex(index));
        }
        Ok(input)
    }

    fn utf8(&self, index: u16) -> Result<&'a [u8], Refusal> {
        let mut input = self.constant(index, UTF8)?;
        let length = input.u2()?;
        input.take(usize::from(length))
    }

    fn class_name(&self, index: u16) -> Result<&'a [u8], Refusal> {
        self.utf8(self.constant(index, CLASS)?.u2()?)
    }

    /// Indices of all `Methodref` constants that name a method of that class.
    fn methods_of<'p>(&'p self, class: &'p [u8]) -> impl Iterator<Item = u16> + 'p {
        (1..=u16::MAX).take(self.positions.len().saturating_sub(1)).filter(move |index| {
            let class_index = self.constant(*index, METHODREF).and_then(|mut method| method.u2());
            class_index.and_then(|index| self.class_name(index)).is_ok_and(|name| name == class)
        })
    }

    fn is_method(&self, index: u16, callee: &Callee) -> Result<bool, Refusal> {
        let mut method = self.constant(index, METHODREF)?;
        method.skip(2)?; // class
        let mut name_and_type = self.constant(method.u2()?, NAME_AND_TYPE)?;
        let (name, descriptor) = (self.utf8(name_and_type.u2()?)?, self.utf8(name_and_type.u2()?)?);
        Ok(name == callee.method.as_bytes() && descriptor == callee.descriptor.as_bytes())
    }
}

/// Constants that are appended to a pool.
struct Appended<'p> {
    pool: &'p Pool<'p>,
    /// `constant_pool_count` with them: one more than the last index.
    count: u16,
    bytes: Vec<u8>,
}

impl<'p> Appended<'p> {
    fn new(pool: &'p Pool<'p>) -> Self {
        // A pool is read from a 16-bit count, so this cannot be cut; if it were, the pool would count as full.
        let count = u16::try_from(pool.positions.len()).unwrap_or(u16::MAX);
        Self { pool, count, bytes: Vec::with_capacity(160) }
    }

    /// The callee's `Methodref`: the one that is there from an earlier rewrite, else a new one.
    fn callee(&mut self, callee: &Callee) -> Result<u16, Refusal> {
        for index in self.pool.methods_of(callee.class.as_bytes()) {
            if self.pool.is_method(index, callee)? {
                return Ok(index);
            }
        }
        let class_name = self.utf8(callee.class)?;
        let class = self.append(CLASS, &[class_name])?;
        let (name, descriptor) = (self.utf8(callee.method)?, self.utf8(callee.descriptor)?);
        let name_and_type = self.append(NAME_AND_TYPE, &[name, descriptor])?;
        self.append(METHODREF, &[class, name_and_type])
    }

    fn utf8(&mut self, text: &str) -> Result<u16, Refusal> {
        let length = u16::try_from(text.len()).map_err(|_| Refusal::BadLength)?;
        let index = self.append(UTF8, &[length])?;
        self.bytes.extend_from_slice(text.as_bytes());
        Ok(index)
    }

    fn append(&mut self, tag: u8, parts: &[u16]) -> Result<u16, Refusal> {
        let index = self.count;
        self.count = index.checked_add(1).ok_or(Refusal::ConstantPoolFull)?;
        self.bytes.push(tag);
        for part in parts {
            put_u2(&mut self.bytes, *part);
        }
        Ok(index)
    }
}

/// A position in the code, behind the call.
fn moved(position: u16) -> Result<u16, Refusal> {
    position.checked_add(CALL_LENGTH).ok_or(Refusal::PositionTooLarge)
}

fn put_u2(output: &mut Vec<u8>, value: u16) {
    output.extend_from_slice(&value.to_be_bytes());
}

/// Puts a length of four bytes and as many bytes.
fn put_sized(output: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Refusal> {
    let length = u32::try_from(bytes.len()).map_err(|_| Refusal::BadLength)?;
    output.extend_from_slice(&length.to_be_bytes());
    output.extend_from_slice(bytes);
    Ok(())
}

fn copy(input: &mut Reader<'_>, output: &mut Vec<u8>, length: usize) -> Result<(), Refusal> {
    output.extend_from_slice(input.take(length)?);
    Ok(())
}

fn copy_u1(input: &mut Reader<'_>, output: &mut Vec<u8>) -> Result<u8, Refusal> {
    let value = input.u1()?;
    output.push(value);
    Ok(value)
}

fn copy_u2(input: &mut Reader<'_>, output: &mut Vec<u8>) -> Result<u16, Refusal> {
    let value = input.u2()?;
    put_u2(output, value);
    Ok(value)
}

/// Reads big-endian numbers; never past the end.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Refusal> {
        let end = self.at.checked_add(length).ok_or(Refusal::BadLength)?;
        let taken = self.bytes.get(self.at..end).ok_or(Refusal::BadLength)?;
        self.at = end;
        Ok(taken)
    }

    fn skip(&mut self, length: usize) -> Result<(), Refusal> {
        self.take(length).map(drop)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        self.take(N)?.try_into().map_err(|_| Refusal::BadLength)
    }

    fn u1(&mut self) -> Result<u8, Refusal> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u2(&mut self) -> Result<u16, Refusal> {
        self.array().map(u16::from_be_bytes)
    }

    fn u4(&mut self) -> Result<u32, Refusal> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a length of four bytes and as many bytes.
    fn sized(&mut self) -> Result<&'a [u8], Refusal> {
        let length = usize::try_from(self.u4()?).map_err(|_| Refusal::BadLength)?;
        self.take(length)
    }

    fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    fn expect_end(&self) -> Result<(), Refusal> {
        if self.is_at_end() { Ok(()) } else { Err(Refusal::BadLength) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const CALLEE: Callee = Callee {
        class: "leaderwatch/Bridge",
        method: "on",
        descriptor: "(ILjava/lang/Object;Ljava/lang/Object;Ljava/lang/Object;)V",
    };
    const SPLICE: Splice<'static> = Splice {
        method: "m",
        descriptor: "()V",
        hook: 5,
        arguments: [Argument::Local(0), Argument::Null, Argument::Local(2)],
    };
    /// Index of the first constant that a test adds to a [`Class`].
    const FIRST_EXTRA_CONSTANT: u16 = 10;

    /// The bytes of big-endian numbers, each as wide as its type.
    macro_rules! bytes {
        ($($number:expr),* $(,)?) => {{
            let mut bytes: Vec<u8> = Vec::new();
            $(bytes.extend_from_slice(&$number.to_be_bytes());)*
            bytes
        }};
    }

    fn utf8(text: &str) -> Vec<u8> {
        [bytes![UTF8, text.len() as u16], text.as_bytes().to_vec()].concat()
    }

    /// A class with fields, another method, and the method `m()V` with these attributes.
    struct Class {
        name: &'static str,
        extra_constants: Vec<Vec<u8>>,
        method_attributes: Vec<Vec<u8>>,
    }

    impl Class {
        fn with_code(code: Vec<u8>) -> Self {
            Self { name: "C", extra_constants: Vec::new(), method_attributes: vec![code] }
        }

        fn build(&self) -> Vec<u8> {
            let constants = [
                utf8(self.name),
                bytes![CLASS, 1u16],
                utf8("java/lang/Object"),
                bytes![CLASS, 3u16],
                utf8("m"),
                utf8("()V"),
                utf8("Code"),
                utf8("f"),
                utf8("I"),
            ];
            let two_wide = self.extra_constants.iter().filter(|constant| constant[0] == 5).count();
            let count = (constants.len() + self.extra_constants.len() + two_wide + 1) as u16;
            [
                bytes![0xcafe_babe_u32, 0u16, 52u16, count],
                constants.concat(),
                self.extra_constants.concat(),
                bytes![0x21u16, 2u16, 4u16, 0u16],
                bytes![1u16, 0u16, 8u16, 9u16, 0u16], // a field: int f
                bytes![2u16],
                bytes![0x101u16, 8u16, 6u16, 0u16], // native f()V
                bytes![0x1u16, 5u16, 6u16, self.method_attributes.len() as u16],
                self.method_attributes.concat(),
                bytes![0u16],
            ]
            .concat()
        }
    }

    fn attribute(name: u16, body: &[u8]) -> Vec<u8> {
        [bytes![name, body.len() as u32], body.to_vec()].concat()
    }

    fn code(instructions: &[u8], exceptions: &[[u16; 4]], attributes: &[Vec<u8>]) -> Vec<u8> {
        let mut body = bytes![1u16, 3u16, instructions.len() as u32];
        body.extend_from_slice(instructions);
        body.extend(bytes![exceptions.len() as u16]);
        body.extend(exceptions.iter().flatten().flat_map(|number| number.to_be_bytes()));
        body.extend(bytes![attributes.len() as u16]);
        body.extend(attributes.concat());
        attribute(7, &body)
    }

    /// What a body of that code attribute becomes.
    fn moved_attribute(name: &str, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        move_attribute(name.as_bytes(), body)
    }

    fn moved_frames(frames: &[Vec<u8>]) -> Result<Vec<u8>, Refusal> {
        let body = [bytes![frames.len() as u16], frames.concat()].concat();
        moved_attribute("StackMapTable", &body).map(|moved| moved[2..].to_vec())
    }

    #[test]
    fn a_call_is_put_in_front_and_constants_behind() {
        let before = Class::with_code(code(&[0xb1], &[[0, 1, 0, 0]], &[])).build();
        let after = rewrite(&before, &SPLICE, &CALLEE).unwrap();
        let class = cafebabe::parse_class(&after).unwrap();
        let cafebabe::attributes::AttributeData::Code(code) = &class.methods[1].attributes[0].data else {
            panic!("code");
        };
        // Six constants behind the nine that were there; the last is the method.
        assert_eq!(code.code, [0x10, 5, 0x2a, 0x01, 0x2c, 0xb8, 0, 15, 0xb1]);
        assert_eq!((code.max_stack, code.max_locals), (4, 3));
        let entry = &code.exception_table[0];
        assert_eq!((entry.start_pc, entry.end_pc, entry.handler_pc), (8, 9, 8));
        let instructions = format!("{:?}", code.bytecode.as_ref().unwrap().opcodes[4]);
        for name in [CALLEE.class, CALLEE.method, CALLEE.descriptor] {
            assert!(instructions.contains(name), "{instructions}");
        }
    }

    #[test]
    fn a_method_that_calls_already_is_left_alone() {
        let before = Class::with_code(code(&[0xb1], &[], &[])).build();
        let after = rewrite(&before, &SPLICE, &CALLEE).unwrap();
        assert_eq!(rewrite(&after, &SPLICE, &CALLEE), Err(Refusal::AlreadyCalls));
        let another = Callee { method: "off", ..CALLEE };
        assert_eq!(rewrite(&after, &SPLICE, &another), Err(Refusal::AlreadyCalls));
    }

    #[test]
    fn a_second_method_of_a_class_needs_no_more_constants() {
        let two_methods = |class: Class| {
            let mut bytes = class.build();
            // The native f()V becomes a second m()V with code, under another name.
            let native = bytes![0x101u16, 8u16, 6u16, 0u16];
            let at = bytes.windows(native.len()).position(|window| window == native).unwrap();
            let method = [bytes![0x1u16, 8u16, 6u16, 1u16], code(&[0xb1], &[], &[])].concat();
            bytes.splice(at..at + native.len(), method);
            bytes
        };
        let before = two_methods(Class::with_code(code(&[0xb1], &[], &[])));
        let once = rewrite(&before, &SPLICE, &CALLEE).unwrap();
        let twice = rewrite(&once, &Splice { method: "f", hook: 6, ..SPLICE }, &CALLEE).unwrap();
        assert_eq!(twice.len(), once.len() + usize::from(CALL_LENGTH));
        assert!(cafebabe::parse_class(&twice).is_ok());
    }

    #[test]
    fn lines_and_variables_from_the_start_stay_there_and_others_move() {
        let lines = moved_attribute("LineNumberTable", &bytes![3u16, 0u16, 10u16, 4u16, 11u16, 0u16, 12u16]);
        assert_eq!(lines, Ok(bytes![3u16, 0u16, 10u16, 12u16, 11u16, 0u16, 12u16]));
        let rest = [7u16, 7u16, 1u16];
        let entry = |start: u16, length: u16| bytes![start, length, rest[0], rest[1], rest[2]];
        let before = [bytes![2u16], entry(0, 20), entry(6, 14)].concat();
        let after = [bytes![2u16], entry(0, 28), entry(14, 14)].concat();
        for name in ["LocalVariableTable", "LocalVariableTypeTable"] {
            assert_eq!(moved_attribute(name, &before), Ok(after.clone()));
        }
    }

    #[test]
    fn the_first_frame_moves_and_takes_the_long_form_where_the_short_one_ends() {
        assert_eq!(moved_frames(&[vec![0], vec![0]]), Ok(vec![8, 0]));
        assert_eq!(moved_frames(&[vec![55]]), Ok(vec![63]));
        assert_eq!(moved_frames(&[vec![56]]), Ok(vec![251, 0, 64]));
        assert_eq!(moved_frames(&[vec![63]]), Ok(vec![251, 0, 71]));
        assert_eq!(moved_frames(&[vec![64, 1]]), Ok(vec![72, 1]));
        assert_eq!(moved_frames(&[vec![64 + 55, 1]]), Ok(vec![64 + 63, 1]));
        assert_eq!(moved_frames(&[vec![64 + 56, 1]]), Ok(vec![247, 0, 64, 1]));
        assert_eq!(moved_frames(&[vec![251, 0, 250]]), Ok(vec![251, 1, 2]));
        assert_eq!(moved_frames(&[vec![248, 0, 1], vec![248, 0, 1]]), Ok(vec![248, 0, 9, 248, 0, 1]));
        assert_eq!(moved_frames(&[vec![251, 0xff, 0xf7]]), Ok(vec![251, 0xff, 0xff]));
        assert_eq!(moved_frames(&[vec![251, 0xff, 0xf8]]), Err(Refusal::PositionTooLarge));
    }

    #[test]
    fn the_place_of_a_new_moves_in_every_frame() {
        let append = vec![253, 0, 1, 8, 0, 3, 7, 0, 9];
        let full = vec![255, 0, 2, 0, 1, 8, 0, 3, 0, 2, 6, 8, 0, 7];
        assert_eq!(
            moved_frames(&[append, full, vec![64, 8, 0, 3]]),
            Ok([
                vec![253, 0, 9, 8, 0, 11, 7, 0, 9],
                vec![255, 0, 2, 0, 1, 8, 0, 11, 0, 2, 6, 8, 0, 15],
                vec![64, 8, 0, 11]
            ]
            .concat())
        );
    }

    #[test]
    fn type_annotations_move_by_what_they_point_to() {
        let cases: [[&[u8]; 2]; 7] = [
            [&[0x13], &[0x13]],
            [&[0x16, 1], &[0x16, 1]],
            [&[0x42, 0, 3], &[0x42, 0, 3]], // index of an exception entry
            [&[0x40, 0, 2, 0, 0, 0, 9, 0, 1, 0, 4, 0, 9, 0, 2], &[0x40, 0, 2, 0, 0, 0, 17, 0, 1, 0, 12, 0, 9, 0, 2]],
            [&[0x44, 0, 3], &[0x44, 0, 11]],
            [&[0x47, 0, 3, 1], &[0x47, 0, 11, 1]],
            [&[0x4b, 0, 0, 1], &[0x4b, 0, 8, 1]],
        ];
        // Behind each target: an empty path, annotation type 9, no elements.
        let annotations = |column: usize| {
            let each = cases.iter().map(|case| [case[column], &[0, 0, 9, 0, 0]].concat());
            [bytes![cases.len() as u16], each.collect::<Vec<_>>().concat()].concat()
        };
        let (before, after) = (annotations(0), annotations(1));
        for name in ["RuntimeVisibleTypeAnnotations", "RuntimeInvisibleTypeAnnotations"] {
            assert_eq!(moved_attribute(name, &before), Ok(after.clone()));
        }
    }

    #[test]
    fn annotation_values_of_every_kind_are_walked_but_not_without_end() {
        let values: [&[u8]; 5] = [
            &[b's', 0, 9],
            &[b'e', 0, 9, 0, 9],
            &[b'[', 0, 2, b'I', 0, 9, b'c', 0, 9],
            &[b'@', 0, 9, 0, 1, 0, 9, b'Z', 0, 9],
            &[b'[', 0, 0],
        ];
        for value in values {
            let body = [&[0, 1, 0x13, 0, 0, 9, 0, 1, 0, 9], value].concat();
            assert_eq!(moved_attribute("RuntimeVisibleTypeAnnotations", &body), Ok(body));
        }
        let nested = [vec![0, 1, 0x13, 0, 0, 9, 0, 1, 0, 9], [b'[', 0, 1].repeat(40), vec![b'I', 0, 9]].concat();
        let refusal = Err(Refusal::UnknownAnnotation(b'['));
        assert_eq!(moved_attribute("RuntimeVisibleTypeAnnotations", &nested), refusal);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        assert_eq!(moved_frames(&[vec![128]]), Err(Refusal::UnknownFrame(128)));
        assert_eq!(moved_frames(&[vec![64, 9]]), Err(Refusal::UnknownVerificationType(9)));
        assert_eq!(moved_frames(&[vec![0, 0]]), Err(Refusal::BadLength), "one byte too many");
        let target = moved_attribute("RuntimeVisibleTypeAnnotations", &[0, 1, 0x50, 0, 0, 9, 0, 0]);
        assert_eq!(target, Err(Refusal::UnknownAnnotation(0x50)));
        let unknown = Refusal::UnknownCodeAttribute("CharacterRangeTable".to_owned());
        assert_eq!(moved_attribute("CharacterRangeTable", &[]), Err(unknown));
        assert_eq!(moved_attribute("LineNumberTable", &bytes![1u16, 65_528u16, 1u16]), Err(Refusal::PositionTooLarge));
    }

    #[test]
    fn a_class_that_cannot_take_the_call_is_refused() {
        let refusal = |class: Class| rewrite(&class.build(), &SPLICE, &CALLEE).unwrap_err();
        let sound = || code(&[0xb1], &[], &[]);
        assert_eq!(rewrite(b"not a class file", &SPLICE, &CALLEE), Err(Refusal::NotAClassFile));
        assert_eq!(refusal(Class { name: "java/lang/Object", ..Class::with_code(sound()) }), Refusal::Untouchable);
        assert_eq!(refusal(Class { method_attributes: Vec::new(), ..Class::with_code(sound()) }), Refusal::NoCode);
        assert_eq!(refusal(Class::with_code(code(&[0; 65_528], &[], &[]))), Refusal::CodeTooLong);
        let unknown_constant = Class { extra_constants: vec![vec![99]], ..Class::with_code(sound()) };
        assert_eq!(refusal(unknown_constant), Refusal::UnknownConstant(99));
        let full = usize::from(u16::MAX - FIRST_EXTRA_CONSTANT - 5);
        let integers = |count| Class { extra_constants: vec![bytes![3u8, 0u32]; count], ..Class::with_code(sound()) };
        assert_eq!(refusal(integers(full)), Refusal::ConstantPoolFull);
        assert!(rewrite(&integers(full - 1).build(), &SPLICE, &CALLEE).is_ok());
        let class = Class::with_code(sound()).build();
        let unknown = Splice { method: "n", ..SPLICE };
        assert_eq!(rewrite(&class, &unknown, &CALLEE), Err(Refusal::NoSuchMethod));
    }

    #[test]
    fn the_longest_method_that_fits_is_rewritten() {
        let class = Class::with_code(code(&[0; 65_527], &[], &[])).build();
        assert!(rewrite(&class, &SPLICE, &CALLEE).is_ok());
    }

    #[test]
    fn a_method_of_the_name_with_another_descriptor_is_told() {
        let class = Class::with_code(code(&[0xb1], &[], &[])).build();
        let refusal =
            |method, descriptor| rewrite(&class, &Splice { method, descriptor, ..SPLICE }, &CALLEE).unwrap_err();
        let other = refusal("m", "(I)V");
        assert_eq!(other, Refusal::OtherDescriptor("()V".to_owned()));
        assert!(other.is_missing_method() && refusal("n", "()V").is_missing_method());
        assert!(!refusal("f", "()V").is_missing_method(), "it is there, and native");
    }

    #[test]
    fn a_class_says_what_it_implements() {
        let none = Class::with_code(code(&[0xb1], &[], &[])).build();
        assert!(!implements(&none, "java/lang/Object"), "that is its super class");
        let mut one = Class::with_code(code(&[0xb1], &[], &[]));
        one.extra_constants = vec![utf8("a/Contender"), bytes![CLASS, FIRST_EXTRA_CONSTANT]];
        let plain = one.build();
        let head = plain.windows(8).rposition(|bytes| bytes == [0, 0x21, 0, 2, 0, 4, 0, 0]).unwrap();
        let mut one = plain[..head + 6].to_vec();
        one.extend(bytes![1u16, FIRST_EXTRA_CONSTANT + 1]);
        one.extend_from_slice(&plain[head + 8..]);
        assert!(implements(&one, "a/Contender") && !implements(&one, "a/Other"));
        assert!(rewrite(&one, &SPLICE, &CALLEE).is_ok());
        for length in 0..head + 8 {
            assert!(!implements(&one[..length], "a/Contender"), "cut at {length}");
        }
    }

    /// A class file that is cut or changed anywhere is refused or rewritten, but never makes the agent panic.
    #[test]
    fn damaged_class_files_do_no_harm() {
        let frames = attribute(FIRST_EXTRA_CONSTANT, &[0, 1, 255, 0, 0, 0, 1, 8, 0, 0, 0, 1, 7, 0, 2]);
        let mut class = Class::with_code(code(&[0xb1], &[[0, 1, 0, 0]], &[frames]));
        class.extra_constants = vec![utf8("StackMapTable"), bytes![5u8, 1u64]];
        let sound = class.build();
        assert!(rewrite(&sound, &SPLICE, &CALLEE).is_ok());
        let class_attributes = 2; // nothing of these is read
        for length in 0..sound.len() - class_attributes {
            assert!(rewrite(&sound[..length], &SPLICE, &CALLEE).is_err(), "cut at {length}");
        }
        for at in 0..sound.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut damaged = sound.clone();
                damaged[at] = value;
                let _ = rewrite(&damaged, &SPLICE, &CALLEE);
            }
        }
    }
}
