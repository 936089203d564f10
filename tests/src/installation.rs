//! Where Flink, Java and the mail receiver are: asks `scripts/flink`, which fetches what is not there.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

/// A Flink and the Java that it runs on.
#[derive(Debug, Clone)]
pub struct Installation {
    /// Folder with `bin`, `conf` and `lib`.
    pub flink_home: PathBuf,
    /// Folder with `bin/java`.
    pub java_home: PathBuf,
    /// Flink's version, such as `2.3.0`.
    pub version: String,
    /// Flink's classes as this Java maps them, where somebody archived them: its processes start in half the time.
    pub class_archive: Option<PathBuf>,
}

impl Installation {
    /// The given version, fetched where it is not in the cache yet.
    ///
    /// # Errors
    /// Where it cannot be fetched; the script tells why on standard error.
    pub fn fetch(version: &str) -> Result<Self> {
        let answer = ask(&["fetch", version])?;
        Ok(Self {
            flink_home: path(&answer, "flink_home")?,
            java_home: path(&answer, "java_home")?,
            version: version.to_owned(),
            class_archive: path(&answer, "class_archive").ok(),
        })
    }

    /// A Flink that is there already; its version is read off the name of its flink-dist jar.
    ///
    /// # Errors
    /// Where the folder is no Flink home, or no Java for it can be had.
    pub fn at(flink_home: &Path) -> Result<Self> {
        let version = version_of(flink_home)?;
        let answer = ask(&["java", &version])?;
        let flink_home = flink_home.canonicalize().with_context(|| format!("{}", flink_home.display()))?;
        Ok(Self { flink_home, java_home: path(&answer, "java_home")?, version, class_archive: None })
    }

    /// The same Flink on a Java of that line: 11, 17, 21 or 25.
    ///
    /// # Errors
    /// Where that cannot be fetched.
    pub fn on_java(self, line: u32) -> Result<Self> {
        let java_home = path(&ask(&["jre", &line.to_string()])?, "java_home")?;
        Ok(Self { java_home, class_archive: None, ..self })
    }

    /// Java options that Flink's own scripts lack for this Java: they ask for a security manager, which Java refuses from 24
    /// on (JEP 486). The last word counts.
    ///
    /// # Errors
    /// Where the Java does not tell its release.
    pub fn java_needs(&self) -> Result<&'static str> {
        let told = std::fs::read_to_string(self.java_home.join("release")).context("the release of Java")?;
        let version = told.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\"")).context("JAVA_VERSION")?;
        let release: u32 = version.split(['.', '"', '-']).next().unwrap_or_default().parse()?;
        Ok(if release < 24 { "" } else { "-Djava.security.manager=disallow" })
    }

    /// (major, minor) of the version.
    pub fn line(&self) -> (u32, u32) {
        let mut numbers = self.version.split('.').map_while(|number| number.parse().ok());
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }

    /// The class path of Flink's own jars.
    ///
    /// # Errors
    /// Where the folder cannot be read.
    pub fn class_path(&self) -> Result<String> {
        let lib = self.flink_home.join("lib");
        let jars = std::fs::read_dir(&lib).with_context(|| format!("{}", lib.display()))?;
        let jars: Vec<String> = jars.flatten().map(|jar| jar.path().display().to_string()).collect();
        Ok(jars.join(":"))
    }
}

/// Where the modules of the mail receiver are, and the Python that they were fetched for.
///
/// # Errors
/// Where they cannot be fetched.
pub fn mail_receiver() -> Result<(PathBuf, PathBuf)> {
    let answer = ask(&["receivers"])?;
    Ok((path(&answer, "python")?, path(&answer, "pythonpath")?))
}

/// The jar of a Java agent that rewrites by ASM what our agent rewrites (`tests/java/BeforeAgent.java`).
///
/// # Errors
/// Where ASM cannot be fetched.
pub fn before_agent() -> Result<PathBuf> {
    path(&ask(&["before-agent"])?, "jar")
}

/// The jars of ASM and of Byte Buddy, which `scripts/flink` lays beside the agents that use them.
///
/// # Errors
/// Where they cannot be fetched.
pub fn agent_libraries() -> Result<(PathBuf, PathBuf)> {
    let beside = |agent: &str, library: &str| anyhow::Ok(path(&ask(&[agent])?, "jar")?.with_file_name(library));
    Ok((beside("before-agent", "asm.jar")?, beside("byte-buddy-agent", "byte-buddy.jar")?))
}

/// The same by Byte Buddy (`tests/java/ByteBuddyAgent.java`).
///
/// # Errors
/// Where Byte Buddy cannot be fetched.
pub fn byte_buddy_agent() -> Result<PathBuf> {
    path(&ask(&["byte-buddy-agent"])?, "jar")
}

/// The root of the source tree.
pub fn source_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace").to_owned()
}

fn ask(arguments: &[&str]) -> Result<Value> {
    ask_script("flink", arguments)
}

/// What a script of `scripts` that fetches things answers.
///
/// # Errors
/// Where it fails; it tells why on standard error.
pub fn ask_script(name: &str, arguments: &[&str]) -> Result<Value> {
    let script = source_root().join("scripts").join(name);
    let told = Command::new(&script)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("{} could not be started; python3 and bash are needed", script.display()))?;
    if !told.status.success() {
        bail!("scripts/{name} {} failed; the lines above tell why", arguments.join(" "));
    }
    serde_json::from_slice(&told.stdout).with_context(|| format!("scripts/{name} answered something that is not JSON"))
}

/// The path that a script answered.
///
/// # Errors
/// Where it answered none.
pub fn path(answer: &Value, key: &str) -> Result<PathBuf> {
    let text = answer[key].as_str().ok_or_else(|| anyhow!("the script answered no `{key}`: {answer}"))?;
    Ok(PathBuf::from(text))
}

fn version_of(flink_home: &Path) -> Result<String> {
    let lib = flink_home.join("lib");
    let wrong = || format!("{} is no Flink home: it has no lib/flink-dist*.jar", flink_home.display());
    std::fs::read_dir(&lib)
        .with_context(wrong)?
        .flatten()
        .filter_map(|jar| jar.file_name().into_string().ok())
        .find_map(|jar| Some(jar.strip_prefix("flink-dist")?.strip_suffix(".jar")?.rsplit('-').next()?.to_owned()))
        .with_context(wrong)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The jars are kept beside their sources, so that the tests need no compiler; each says of what source it is.
    #[test]
    fn the_jars_are_those_of_the_sources() {
        let folder = source_root().join("tests/java");
        let pairs = [
            ("HeartbeatJob.java", "job.jar"),
            ("BeforeAgent.java", "before-agent.jar"),
            ("ByteBuddyAgent.java", "byte-buddy-agent.jar"),
        ];
        for (source, jar) in pairs {
            let summed = Command::new("sha256sum").arg(folder.join(source)).output().unwrap();
            let digest = String::from_utf8(summed.stdout).unwrap()[..64].to_owned();
            // Stored, not compressed; a line of a manifest goes on after a line end and a blank.
            let text = String::from_utf8_lossy(&std::fs::read(folder.join(jar)).unwrap()).replace("\r\n ", "");
            assert!(text.contains(&digest), "{jar} is of another {source}; compile it anew by: scripts/flink jars");
        }
    }
}
