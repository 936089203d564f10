//! An independent look at a rewrite: both class files are read by `cafebabe`, and everything but the method rewritten
//! must be the same, and that method must be the old one with every position moved.

use cafebabe::MethodInfo;
use cafebabe::attributes::{
    AttributeData, AttributeInfo, CodeData, StackMapEntry, TypeAnnotationTarget, VerificationType,
};
use leaderwatch::classfile::{Argument, Splice};

/// Bytes that a call takes, and how many instructions it is.
const CALL: (usize, usize) = (8, 5);

/// A call for every method that can take one: whatever references it has at entry are passed.
pub struct Candidate {
    pub method: String,
    pub descriptor: String,
    pub arguments: [Argument; 3],
}

impl Candidate {
    pub fn splice(&self) -> Splice<'_> {
        Splice { method: &self.method, descriptor: &self.descriptor, hook: 42, arguments: self.arguments }
    }
}

/// The methods with code; none of a class file that `cafebabe` does not read. Those are classes with a dynamic constant
/// among the arguments of a bootstrap method: a few of each JDK.
pub fn candidates(class_file: &[u8]) -> Option<Vec<Candidate>> {
    let class = cafebabe::parse_class(class_file).ok()?;
    let has_code = |method: &&MethodInfo| method.attributes.iter().any(|attribute| attribute.name == "Code");
    let candidates = class
        .methods
        .iter()
        .filter(has_code)
        .map(|method| {
            let descriptor = method.descriptor.to_string();
            Candidate {
                method: method.name.to_string(),
                arguments: references_at_entry(method, &descriptor),
                descriptor,
            }
        })
        .collect();
    Some(candidates)
}

/// `this` is no reference yet in a constructor.
fn references_at_entry(method: &MethodInfo, descriptor: &str) -> [Argument; 3] {
    let mut locals = Vec::new();
    if method.access_flags.bits() & 0x0008 == 0 {
        locals.push(method.name != "<init>");
    }
    let mut types = descriptor.strip_prefix('(').unwrap();
    while !types.starts_with(')') {
        let element = types.trim_start_matches('[');
        let length = if element.starts_with('L') { element.find(';').unwrap() + 1 } else { 1 };
        let is_array = element.len() < types.len();
        locals.push(is_array || element.starts_with('L'));
        if !is_array && (element.starts_with('J') || element.starts_with('D')) {
            locals.push(false);
        }
        types = &element[length..];
    }
    [0, 1, 2].map(|local| match locals.get(usize::from(local)) {
        Some(true) => Argument::Local(local),
        _ => Argument::Null,
    })
}

/// Asserts that `after` is `before` with these calls.
pub fn assert_only_calls_are_new(before: &[u8], after: &[u8], splices: &[Splice<'_>]) {
    let before = cafebabe::parse_class(before).unwrap();
    let after = cafebabe::parse_class(after).unwrap();
    let header = |class: &cafebabe::ClassFile| {
        format!(
            "{:?}",
            (
                (class.major_version, class.minor_version, class.access_flags, &class.interfaces),
                (&class.this_class, &class.super_class, &class.fields, &class.attributes)
            )
        )
    };
    assert_eq!(header(&before), header(&after));
    assert_eq!(before.methods.len(), after.methods.len());
    for (old, new) in before.methods.iter().zip(&after.methods) {
        let descriptor = old.descriptor.to_string();
        let splice = splices.iter().find(|splice| old.name == splice.method && descriptor == splice.descriptor);
        match splice {
            Some(splice) => {
                assert_eq!(moved_method(old), called_method(new, splice), "{} {}", before.this_class, old.name)
            }
            None => assert_eq!(format!("{old:?}"), format!("{new:?}"), "{}", before.this_class),
        }
    }
}

/// The method as it must be after the rewrite, without the call itself.
fn moved_method(method: &MethodInfo) -> Vec<String> {
    describe(method, CALL.0 as u16, |code| {
        let instructions = &code.bytecode.as_ref().unwrap().opcodes;
        let moved = instructions.iter().map(|(position, opcode)| format!("{} {opcode:?}", position + CALL.0)).collect();
        (code.max_stack.max(4), moved)
    })
}

/// The method as it is after the rewrite; the call is checked and left out.
fn called_method(method: &MethodInfo, splice: &Splice<'_>) -> Vec<String> {
    describe(method, 0, |code| {
        let instructions = &code.bytecode.as_ref().unwrap().opcodes;
        let call: Vec<String> = instructions[..CALL.1].iter().map(|(_, opcode)| format!("{opcode:?}")).collect();
        assert_eq!(call[0], format!("Bipush({})", splice.hook));
        for (argument, instruction) in splice.arguments.iter().zip(&call[1..]) {
            let expected = match argument {
                Argument::Null => "AconstNull".to_owned(),
                Argument::Local(local) => format!("Aload({local})"),
            };
            assert_eq!(*instruction, expected);
        }
        assert!(call[4].starts_with("Invokestatic") && call[4].contains("leaderwatch/Bridge"), "{}", call[4]);
        let rest = instructions[CALL.1..].iter();
        (code.max_stack, rest.map(|(position, opcode)| format!("{position} {opcode:?}")).collect())
    })
}

fn describe(method: &MethodInfo, by: u16, instructions: impl Fn(&CodeData) -> (u16, Vec<String>)) -> Vec<String> {
    let mut lines = vec![format!("{:?} {} {}", method.access_flags, method.name, method.descriptor)];
    for attribute in &method.attributes {
        let AttributeData::Code(code) = &attribute.data else {
            lines.push(format!("{attribute:?}"));
            continue;
        };
        let (max_stack, code_lines) = instructions(code);
        lines.push(format!("stack {max_stack}, locals {}", code.max_locals));
        lines.extend(code_lines);
        for entry in &code.exception_table {
            let range = [entry.start_pc, entry.end_pc, entry.handler_pc].map(|position| position + by);
            lines.push(format!("catch {range:?} {:?}", entry.catch_type));
        }
        lines.extend(code.attributes.iter().flat_map(|attribute| describe_attribute(attribute, by)));
    }
    lines
}

fn describe_attribute(attribute: &AttributeInfo, by: u16) -> Vec<String> {
    let name = &attribute.name;
    match &attribute.data {
        AttributeData::LineNumberTable(entries) => entries
            .iter()
            .map(|entry| {
                format!("{name} {} {}", if entry.start_pc == 0 { 0 } else { entry.start_pc + by }, entry.line_number)
            })
            .collect(),
        AttributeData::LocalVariableTable(entries) => entries
            .iter()
            .map(|entry| {
                let range = range(entry.start_pc, entry.length, by);
                format!("{name} {range:?} {} {} {}", entry.name, entry.descriptor, entry.index)
            })
            .collect(),
        AttributeData::LocalVariableTypeTable(entries) => entries
            .iter()
            .map(|entry| {
                let range = range(entry.start_pc, entry.length, by);
                format!("{name} {range:?} {} {} {}", entry.name, entry.signature, entry.index)
            })
            .collect(),
        AttributeData::StackMapTable(frames) => describe_frames(frames, by),
        AttributeData::RuntimeVisibleTypeAnnotations(annotations)
        | AttributeData::RuntimeInvisibleTypeAnnotations(annotations) => annotations
            .iter()
            .map(|annotation| {
                let target = describe_target(&annotation.target_type, by);
                format!("{name} {target} {:?} {:?}", annotation.target_path, annotation.annotation)
            })
            .collect(),
        other => panic!("{name}: {other:?}"),
    }
}

fn range(start: u16, length: u16, by: u16) -> (u16, u16) {
    if start == 0 { (0, length + by) } else { (start + by, length) }
}

/// Frames by where they are, not by how far they are from each other.
fn describe_frames(frames: &[StackMapEntry], by: u16) -> Vec<String> {
    let mut at: i32 = -1;
    let types = |types: &[VerificationType]| types.iter().map(|one| describe_type(one, by)).collect::<Vec<_>>();
    let mut lines = Vec::new();
    for frame in frames {
        let (delta, line) = match frame {
            StackMapEntry::Same { offset_delta } => (offset_delta, "same".to_owned()),
            StackMapEntry::SameLocals1StackItem { offset_delta, stack } => (offset_delta, describe_type(stack, by)),
            StackMapEntry::Chop { offset_delta, chop_count } => (offset_delta, format!("chop {chop_count}")),
            StackMapEntry::Append { offset_delta, locals } => (offset_delta, format!("append {:?}", types(locals))),
            StackMapEntry::FullFrame { offset_delta, locals, stack } => {
                (offset_delta, format!("full {:?} {:?}", types(locals), types(stack)))
            }
        };
        at += i32::from(*delta) + 1;
        lines.push(format!("frame {} {line}", at + i32::from(by)));
    }
    lines
}

fn describe_type(of: &VerificationType, by: u16) -> String {
    match of {
        VerificationType::Uninitialized { code_offset } => format!("new at {}", code_offset + by),
        other => format!("{other:?}"),
    }
}

fn describe_target(target: &TypeAnnotationTarget, by: u16) -> String {
    match target {
        TypeAnnotationTarget::LocalVar(entries) => {
            let entries = entries.iter().map(|entry| (range(entry.start_pc, entry.length, by), entry.index));
            format!("local {:?}", entries.collect::<Vec<_>>())
        }
        TypeAnnotationTarget::Offset { offset } => format!("at {}", offset + by),
        TypeAnnotationTarget::TypeArgument { offset, type_argument_index } => {
            format!("argument {type_argument_index} at {}", offset + by)
        }
        other => format!("{other:?}"),
    }
}
