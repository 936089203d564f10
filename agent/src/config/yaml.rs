//! Reads what Flink's configuration files hold: a flat list of keys and values.
//!
//! Not a YAML parser: of YAML it knows what stands in files that Flink and its start scripts write (maps by
//! indentation, flat dotted keys, quoted and plain scalars, lists of scalars, texts of several lines). What it does not
//! know it skips.

use std::collections::BTreeMap;

/// Keys with dots, and their values.
pub type Flat = BTreeMap<String, String>;

/// Reads `flink-conf.yaml` as Flink's own loader does until 1.20 (`GlobalConfiguration.loadYAMLResource`): each line
/// up to its first `#`, split at the first `: `; the last value of a key holds.
pub fn parse_legacy(text: &str) -> Flat {
    let mut flat = Flat::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let Some((key, value)) = line.split_once(": ") else { continue };
        let (key, value) = (key.trim(), value.trim());
        if !key.is_empty() && !value.is_empty() {
            flat.insert(key.to_owned(), value.to_owned());
        }
    }
    flat
}

/// Reads `config.yaml` (Flink 1.19 and later), nested or flat. Lists come out joined by `;`, as Flink flattens them, and
/// texts of several lines as one.
pub fn parse_standard(text: &str) -> Flat {
    let mut flat = Flat::new();
    // The maps that the present line stands in: their indentation and dotted path.
    let mut parents: Vec<(usize, String)> = Vec::new();
    // The last text and the indentation of its key: what is indented deeper goes on with it.
    let mut last_text: Option<(usize, String)> = None;
    for line in text.lines() {
        let content = without_comment(line);
        let indent = content.len() - content.trim_start().len();
        let content = content.trim();
        if content.is_empty() || content == "---" || content == "..." {
            continue;
        }
        if let Some((_, path)) = last_text.as_ref().filter(|(of_key, _)| *of_key < indent) {
            append(&mut flat, path, ' ', content);
            continue;
        }
        last_text = None;
        if let Some(item) = content.strip_prefix("- ") {
            // A list may stand at the indentation of its key.
            if let Some((_, path)) = parents.iter().rfind(|(parent, _)| *parent <= indent) {
                append(&mut flat, path, ';', &scalar(item));
            }
            continue;
        }
        let Some((key, value)) = key_and_value(content) else { continue };
        parents.retain(|(parent, _)| *parent < indent);
        let path = parents.last().map_or(key.clone(), |(_, parent)| format!("{parent}.{key}"));
        if value.is_empty() {
            parents.push((indent, path));
            continue;
        }
        if let Some(map) = value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            let entries = map.split(',').filter_map(|entry| key_and_value(entry.trim()));
            flat.extend(entries.map(|(key, value)| (format!("{path}.{key}"), scalar(value))));
            continue;
        }
        // `|` and `>` with their signs announce a text of several lines.
        let is_announced = value.len() <= 2 && value.starts_with(['|', '>']);
        flat.insert(path.clone(), if is_announced { String::new() } else { scalar(value) });
        last_text = Some((indent, path));
    }
    flat
}

fn append(flat: &mut Flat, path: &str, separator: char, item: &str) {
    let value = flat.entry(path.to_owned()).or_default();
    if !value.is_empty() {
        value.push(separator);
    }
    value.push_str(item);
}

/// A line up to ` #`, or to a `#` at its start, outside quotes.
pub(super) fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') if before.is_whitespace() => return &line[..at],
            // A quote opens a scalar only at its start; a doubled one goes on with the scalar that it seemed to close.
            (None, '"' | '\'') if before.is_whitespace() || matches!(before, '[' | ',' | '\'') => quote = Some(c),
            (Some(open), c) if c == open && before != '\\' => quote = None,
            _ => {}
        }
        before = c;
    }
    line
}

/// Splits `key: value` or `key:`; a key may stand in quotes.
pub(super) fn key_and_value(content: &str) -> Option<(String, &str)> {
    let (key, value) = match content.split_once(": ") {
        Some((key, value)) => (key, value.trim()),
        None => (content.strip_suffix(':')?, ""),
    };
    let key = scalar(key);
    (!key.is_empty()).then_some((key, value))
}

/// The text of a scalar or of a list in brackets.
fn scalar(text: &str) -> String {
    let text = text.trim();
    if let Some(list) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return list.split(',').map(scalar).filter(|item| !item.is_empty()).collect::<Vec<_>>().join(";");
    }
    let inside = |quote: char| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    if let Some(single) = inside('\'') {
        return single.replace("''", "'");
    }
    match inside('"') {
        Some(double) => double.replace("\\\"", "\"").replace("\\\\", "\\"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(flat: &Flat) -> Vec<(&str, &str)> {
        flat.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
    }

    #[test]
    fn the_legacy_file_ends_a_value_at_the_first_hash() {
        let text =
            "# comment\nhigh-availability: zookeeper\nurl: file:///a#b\nno-blank:x\nempty: \nkey: a: b\nkey: c\n";
        assert_eq!(
            pairs(&parse_legacy(text)),
            [("high-availability", "zookeeper"), ("key", "c"), ("url", "file:///a")]
        );
    }

    #[test]
    fn the_standard_file_may_be_nested_or_flat() {
        let text = "\
---
jobmanager:
  rpc:
    address: localhost # here
    port: 6123
high-availability:
  # comment
  type: zookeeper
  zookeeper:
    quorum: 'zk1:2181,zk2:2181'
high-availability.storageDir: \"file:///a b\"
env.java.opts.all: --add-exports=java.base/sun.net.util=ALL-UNNAMED
list:
  - a
  - b
same:
- c
- \"d\"
flow: [a, 'b']
after.list: x#y
";
        assert_eq!(
            pairs(&parse_standard(text)),
            [
                ("after.list", "x#y"),
                ("env.java.opts.all", "--add-exports=java.base/sun.net.util=ALL-UNNAMED"),
                ("flow", "a;b"),
                ("high-availability.storageDir", "file:///a b"),
                ("high-availability.type", "zookeeper"),
                ("high-availability.zookeeper.quorum", "zk1:2181,zk2:2181"),
                ("jobmanager.rpc.address", "localhost"),
                ("jobmanager.rpc.port", "6123"),
                ("list", "a;b"),
                ("same", "c;d"),
            ]
        );
    }

    /// Expectations as Flink 2.3.0's own `BashJavaUtils UPDATE_AND_GET_FLINK_CONFIGURATION` reads the same file.
    #[test]
    fn texts_of_several_lines_are_one_and_hold_no_keys() {
        let text = "\
folded: >-
  x: y
  z
literal: |
    -agentpath:/x/libleaderwatch.so
    -Dx=y
continued: first
  second line
rpc: {address: localhost, port: 6123}
url: http://a:80/b
\"quoted.key\": \"a:\"
";
        assert_eq!(
            pairs(&parse_standard(text)),
            [
                ("continued", "first second line"),
                ("folded", "x: y z"),
                ("literal", "-agentpath:/x/libleaderwatch.so -Dx=y"),
                ("quoted.key", "a:"),
                ("rpc.address", "localhost"),
                ("rpc.port", "6123"),
                ("url", "http://a:80/b"),
            ]
        );
    }

    #[test]
    fn quotes_and_hashes_inside_values_are_kept() {
        assert_eq!(
            pairs(&parse_standard("a: 'it''s # not'\nb: \"x \\\" y\" # z\nc: it's # z\n")),
            [("a", "it's # not"), ("b", "x \" y"), ("c", "it's")]
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(.|\\n|: |- |#|'|\"|\\[|\\])*") {
            parse_legacy(&text);
            parse_standard(&text);
        }
    }
}
