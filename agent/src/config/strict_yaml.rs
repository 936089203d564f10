//! Is it YAML as Flink takes it? From 1.19 on Flink reads `config.yaml` strictly (`YamlParserUtils`): after one fault, or
//! a key that stands twice in a map, no process of the cluster starts.
//!
//! Only the command asks. The agent reads what it can (`yaml`), in a Flink that has started.

use std::collections::HashSet;

use saphyr_parser::{Event, Parser, Span};

/// The first thing that Flink does not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlFault {
    /// Line, from 1; of a text that does not end as it should, that of its beginning.
    pub line: usize,
    /// What is wrong there.
    pub reason: String,
}

/// What is open around the present place.
enum Level<'a> {
    /// A map: its keys so far, and whether a key comes next.
    Map {
        keys: HashSet<std::borrow::Cow<'a, str>>,
        at_key: bool,
    },
    List,
}

/// The first fault of the text; none: Flink can read it.
pub fn first_fault(text: &str) -> Option<YamlFault> {
    let mut open: Vec<Level<'_>> = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, span) = match event {
            Ok(found) => found,
            Err(error) => {
                // What is missing at the end is found behind it.
                let line = error.marker().line().min(text.split(['\n', '\r']).count());
                return Some(YamlFault { line, reason: error.info().to_owned() });
            }
        };
        match event {
            Event::MappingStart(..) => {
                pass_value(&mut open);
                open.push(Level::Map { keys: HashSet::new(), at_key: true });
            }
            Event::SequenceStart(..) => {
                pass_value(&mut open);
                open.push(Level::List);
            }
            Event::MappingEnd | Event::SequenceEnd => {
                open.pop();
            }
            Event::Alias(_) => pass_value(&mut open),
            Event::Scalar(value, ..) => match open.last_mut() {
                Some(Level::Map { keys, at_key: true }) if keys.contains(&value) => return Some(twice(&value, span)),
                Some(Level::Map { keys, at_key: at_key @ true }) => {
                    keys.insert(value);
                    *at_key = false;
                }
                _ => pass_value(&mut open),
            },
            _ => {}
        }
    }
    None
}

/// A value, or a key that is none of the texts that can be compared, goes by.
fn pass_value(open: &mut [Level<'_>]) {
    if let Some(Level::Map { at_key, .. }) = open.last_mut() {
        *at_key = !*at_key;
    }
}

fn twice(key: &str, span: Span) -> YamlFault {
    YamlFault { line: span.start.line(), reason: format!("the key `{key}` stands twice in the same map") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_flink_reads_has_no_fault() {
        for text in [
            "",
            "# nothing\n",
            "a: b\nc.d: e: f\n".replace("e: f", "'e: f'").as_str(),
            "---\na:\n  b: c\n  d: [1, 2]\ne:\n- a: 1\n- a: 2\nf: {a: 1, b: 2}\n",
            "a: |\n  b: c\n  b: c\nd: >-\n  x\n",
            "a: &x {b: 1}\nc: *x\n",
        ] {
            assert_eq!(first_fault(text), None, "{text}");
        }
    }

    #[test]
    fn the_line_of_the_first_fault_is_told() {
        for (text, line) in [
            ("a: b\n\tc: d\n", 1),
            ("a: b\nc: [1, 2\nd: e\n", 3),
            ("a: b\nc: 'open\n", 2),
            ("a: b\n  c: d\n", 2),
            ("a: b: c\n", 1),
        ] {
            let fault = first_fault(text).unwrap_or_else(|| panic!("no fault in {text:?}"));
            assert!(fault.line >= line && fault.line <= line + 1, "{text:?}: {fault:?}");
        }
    }

    #[test]
    fn a_key_may_stand_once_in_a_map() {
        let fault = first_fault("a:\n  b: 1\nc:\n  b: 2\na: 3\n");
        assert_eq!(fault, Some(YamlFault { line: 5, reason: "the key `a` stands twice in the same map".to_owned() }));
    }
}
