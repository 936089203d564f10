//! What the end-to-end tests and the demo run on: a real Flink cluster on loopback, started by Flink's own scripts, and
//! receivers for what the agent sends.
#![forbid(unsafe_code)]

pub mod agent;
pub mod alert_log;
pub mod bench;
pub mod chaos;
pub mod cluster;
pub mod command_line;
pub mod installation;
pub mod kubernetes;
pub mod listener;
pub mod mail;
pub mod oracle;
pub mod ports;
pub mod process;
pub mod rest;
pub mod screen;
pub mod settings;
pub mod wait;
pub mod watched;
pub mod webhook;
