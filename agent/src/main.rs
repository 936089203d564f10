//! The command `leaderwatch`.

fn main() {}
