//! Flink's version, from the name of its main jar in the class path.

/// The version in the name of the first `flink-dist` jar: `flink-dist-2.3.0.jar`, `flink-dist_2.11-1.14.6.jar` (with
/// Scala's version, until 1.14), `flink-dist-1.18.1-amzn-0.jar` (a vendor's).
pub fn flink_version(class_path: &str) -> Option<String> {
    class_path.split(':').find_map(version_of_jar)
}

fn version_of_jar(path: &str) -> Option<String> {
    let name = path.rsplit('/').next()?.strip_prefix("flink-dist")?.strip_suffix(".jar")?;
    let version = match name.strip_prefix('_') {
        Some(scala) => scala.split_once('-')?.1,
        None => name.strip_prefix('-')?,
    };
    version.starts_with(|c: char| c.is_ascii_digit()).then(|| version.to_owned())
}

/// The first number of a version.
pub fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_stands_in_the_jar_name() {
        let version = |class_path| flink_version(class_path);
        assert_eq!(version("/opt/flink/lib/a.jar:/opt/flink/lib/flink-dist-2.3.0.jar::"), Some("2.3.0".to_owned()));
        assert_eq!(version("lib/flink-dist_2.11-1.14.6.jar"), Some("1.14.6".to_owned()));
        assert_eq!(version("lib/flink-dist-1.18.1-amzn-0.jar"), Some("1.18.1-amzn-0".to_owned()));
        assert_eq!(version("lib/flink-dist-2.4-SNAPSHOT.jar"), Some("2.4-SNAPSHOT".to_owned()));
        assert_eq!(version("lib/flink-distribution.jar:lib/flink-dist.jar:lib/*"), None);
        assert_eq!(version(""), None);
    }

    #[test]
    fn the_major_version_is_the_first_number() {
        assert_eq!(major("2.3.0"), Some(2));
        assert_eq!(major("1.14.6"), Some(1));
        assert_eq!(major("x"), None);
    }
}
