//! Whether a folder outlives its container and the next boot.

use std::path::{Path, PathBuf};

use super::environment::Environment;

/// What is mounted, as this process sees it: `man 5 fstab` describes the form.
const MOUNTS: &str = "/proc/self/mounts";
/// File systems that are gone with a container (its own layer) or at the next boot (memory).
const SHORT_LIVED: [&str; 5] = ["overlay", "aufs", "fuse-overlayfs", "tmpfs", "ramfs"];

/// The type of the file system that a path lies on, if it is a short-lived one.
pub(super) fn short_lived_file_system(path: &Path, env: &dyn Environment) -> Option<String> {
    let mounts = env.read(Path::new(MOUNTS)).ok()?;
    // The deepest mount point holds the path; of two at the same place the later one is seen.
    let mounted = mounts.lines().filter_map(mount).filter(|(point, _)| path.starts_with(point));
    let (_, kind) = mounted.max_by_key(|(point, _)| point.components().count())?;
    SHORT_LIVED.contains(&kind).then(|| kind.to_owned())
}

/// Mount point and type of file system.
fn mount(line: &str) -> Option<(PathBuf, &str)> {
    let mut fields = line.split(' ').skip(1);
    let point = fields.next()?.replace("\\040", " ");
    Some((PathBuf::from(point), fields.next()?))
}

#[cfg(test)]
mod tests {
    use super::super::environment::FakeEnvironment;
    use super::*;

    #[test]
    fn the_deepest_mount_decides() {
        let mounts = "overlay / overlay rw 0 0\n/dev/sda1 /data ext4 rw 0 0\ntmpfs /data/fast tmpfs rw 0 0\n\
                      nfs:/x /my\\040disk nfs4 rw 0 0\n";
        let env = FakeEnvironment::default().with_file(MOUNTS, mounts);
        let kind = |path| short_lived_file_system(Path::new(path), &env);
        assert_eq!(kind("/var/lib/leaderwatch").as_deref(), Some("overlay"));
        assert_eq!(kind("/data/leaderwatch"), None);
        assert_eq!(kind("/data/fast/x").as_deref(), Some("tmpfs"));
        assert_eq!(kind("/database").as_deref(), Some("overlay"));
        assert_eq!(kind("/my disk/x"), None);
        assert_eq!(short_lived_file_system(Path::new("/x"), &FakeEnvironment::default()), None);
    }
}
