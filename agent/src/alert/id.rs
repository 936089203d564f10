//! Deterministic ids: the same in every JVM that saw the same election.

use crate::leadership::SessionId;

/// Length of an id, in hexadecimal digits.
const ID_DIGITS: usize = 32;

/// Id of the alert about the election that `leader` won (`no_leader`: that it lost).
pub fn alert_id(class_salt: &str, namespace: Option<&str>, cluster: &str, leader: SessionId) -> String {
    let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
    for part in [class_salt, namespace.unwrap_or(""), cluster] {
        hash.update(part.as_bytes());
        // A separator that no name holds, so that `a`+`bc` is not `ab`+`c`.
        hash.update(&[0]);
    }
    hash.update(&leader.0.to_be_bytes());
    let digits: String = hash.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    digits[..ID_DIGITS].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_depends_on_each_part_and_on_nothing_else() {
        let id = alert_id("failover", Some("flink"), "orders", SessionId(7));
        assert_eq!(id, alert_id("failover", Some("flink"), "orders", SessionId(7)));
        assert_eq!(id.len(), ID_DIGITS);
        let others = [
            alert_id("no_leader", Some("flink"), "orders", SessionId(7)),
            alert_id("failover", None, "orders", SessionId(7)),
            alert_id("failover", Some("flinko"), "rders", SessionId(7)),
            alert_id("failover", Some("flink"), "orders", SessionId(8)),
        ];
        for other in others {
            assert_ne!(id, other);
        }
    }
}
