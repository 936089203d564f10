//! Fuzzing of what reads bytes from elsewhere: options, files, logs, the outbox, templates. Replies of receivers are in
//! `target/fuzz.rs`, class files in `native/tests/jvm/fuzz.rs`.
//!
//! Under `cargo test` each runs its seeds (`__fuzz__/NAME/corpus`, and what once failed, in `crashes`) and some random
//! input. `scripts/fuzz` runs them under libFuzzer, which finds its way by coverage.

use std::path::Path;

use bolero::check;
use jiff::tz::TimeZone;

use crate::alert::drill::alert;
use crate::alert::{Class, OwnTexts, Texts};
use crate::config::{
    FakeEnvironment, FlinkConf, Language, MailDefaults, behind_agentpath, first_fault, parse_file, parse_options,
};
use crate::delivery::outbox::{read_line, write_line};
use crate::journal::alike::Alike;
use crate::journal::reader::{Entry, Head, LineReader, Stamp};
use crate::target::text::{cut_bytes, cut_characters, cut_utf16, one_line, printable};

/// Input of one random run; libFuzzer chooses its own.
const RANDOM_RUNS: usize = 500;

/// Each problem says what, why and the cure, whatever stands there.
fn assert_told(problems: &[crate::config::Problem]) {
    for problem in problems {
        assert!(!problem.what().is_empty() && !problem.fault.reason().is_empty(), "{problem:?}");
    }
}

#[test]
fn fuzz_options() {
    check!(name = "options").with_iterations(RANDOM_RUNS).for_each(|bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let env = FakeEnvironment::default();
        let (options, problems) = parse_options(behind_agentpath(&text), &env);
        assert_told(&problems);
        assert_eq!(parse_options(behind_agentpath(&text), &env), (options, problems), "the same text means the same");
    });
}

#[test]
fn fuzz_configuration() {
    check!(name = "configuration").with_iterations(RANDOM_RUNS).for_each(|bytes: &[u8]| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        let parse = || parse_file(text, Path::new("f.toml"), &MailDefaults::default(), &FakeEnvironment::default());
        let (settings, problems) = parse();
        assert_told(&problems);
        assert_eq!(parse(), (settings, problems), "the same text means the same");
    });
}

#[test]
fn fuzz_flink_configuration() {
    check!(name = "flink_configuration").with_iterations(RANDOM_RUNS).for_each(|bytes: &[u8]| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        // YAML ends a line at a carriage return, too.
        let lines = 1 + text.matches(['\n', '\r']).count();
        assert!(first_fault(text).is_none_or(|fault| (1..=lines).contains(&fault.line)), "{:?}", first_fault(text));
        for (name, version) in [("config.yaml", "2.3.0"), ("flink-conf.yaml", "1.14.6")] {
            let env = FakeEnvironment::default().with_file(&format!("/conf/{name}"), text);
            let conf = FlinkConf::read_folder(Path::new("/conf"), Some(version), &env).unwrap().unwrap();
            assert!(conf.iter().all(|(key, _)| !key.is_empty()));
        }
    });
}

/// A record that can be read is the same when it is written and read again.
#[test]
fn fuzz_outbox_line() {
    check!(name = "outbox_line").with_iterations(RANDOM_RUNS).for_each(|json: &[u8]| {
        // A checksum that is right lets the fuzzer pass it.
        let line = [format!("{:08x} ", crc32fast::hash(json)).as_bytes(), json].concat();
        let Ok(entries) = read_line(&line) else { return };
        let mut again = Vec::new();
        write_line(&entries, &mut again);
        assert_eq!(again.pop(), Some(b'\n'));
        assert!(!again.contains(&b'\n'));
        assert_eq!(read_line(&again), Ok(entries));
    });
}

/// Any bytes are read to their end, line by line, and what is a record is one by the quick way and the slow one alike.
#[test]
fn fuzz_alert_log() {
    check!(name = "alert_log").with_iterations(RANDOM_RUNS).for_each(|bytes: &[u8]| {
        let mut reader = LineReader::new(bytes);
        let mut alike = Alike::default();
        let mut read = 0;
        while let Some(line) = reader.next_line().unwrap() {
            read += line.bytes.len() + 1;
            assert!(read <= bytes.len() + 1, "no byte is read twice");
            let stamp = Stamp::of_line(line.bytes);
            let Some(head) = Head::of(line.bytes) else { continue };
            alike.told_before(&head);
            let quick = Entry::with_head(&head, line.bytes);
            // What is garbled in a field of a later version, only the quick way passes over.
            let (Some(stamp), Some(Entry::Known(record)), Ok(text)) = (stamp, &quick, std::str::from_utf8(line.bytes))
            else {
                continue;
            };
            assert_eq!(Stamp::of(record.ts), stamp);
            assert_eq!(serde_json::from_str::<crate::event::Event>(text).unwrap(), record.event);
        }
    });
}

/// Whatever the user's template is, an alert has a title on one line and a text.
#[test]
fn fuzz_template() {
    check!(name = "template").with_iterations(RANDOM_RUNS).for_each(|bytes: &[u8]| {
        let source = String::from_utf8_lossy(bytes).into_owned();
        let own = OwnTexts { title: Some(source.clone()), text: Some(source.clone()), link: Some(source) };
        let (texts, bad) = Texts::new(Language::English, TimeZone::UTC, own);
        assert!(bad.iter().all(|bad| !bad.reason.is_empty()));
        let mut alert = alert(Class::Failover, "orders");
        texts.write(&mut alert);
        assert!(!alert.title.contains('\n') && alert.text.ends_with('\n'), "{alert:?}");
    });
}

#[test]
fn fuzz_text_cutting() {
    check!(name = "text_cutting").with_iterations(RANDOM_RUNS).with_type::<(String, u8)>().for_each(
        |(text, limit): &(String, u8)| {
            let limit = usize::from(*limit);
            assert!(cut_bytes(text, limit).len() <= limit.max('…'.len_utf8()));
            assert!(cut_characters(text, limit).chars().count() <= limit.max(1));
            assert!(cut_utf16(text, limit).encode_utf16().count() <= limit.max(1));
            assert!(!one_line(text).contains('\n'));
            assert!(printable(text).chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
        },
    );
}
