//! Writes a file anew, whole or not at all.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

/// Puts `bytes` in the place of a file in one step, so that a full disk leaves what was there. With mode and owner of
/// `model`, where one is given. A link is followed; a pipe or a device is written to.
///
/// # Errors
/// Those of the system.
pub fn replace(file: &Path, bytes: &[u8], model: Option<&Path>) -> io::Result<()> {
    let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    if fs::metadata(&target).is_ok_and(|known| !known.is_file()) {
        return fs::write(target, bytes);
    }
    let mut partial = target.clone().into_os_string();
    partial.push(format!(".leaderwatch-{}", std::process::id()));
    let partial = Path::new(&partial);
    write(partial, bytes, model).and_then(|()| fs::rename(partial, &target)).inspect_err(|_| {
        // What is left of it says nothing.
        let _ = fs::remove_file(partial);
    })
}

fn write(partial: &Path, bytes: &[u8], model: Option<&Path>) -> io::Result<()> {
    let mut out = fs::File::create(partial)?;
    out.write_all(bytes)?;
    out.sync_all()?;
    let Some(model) = model else { return Ok(()) };
    let model = fs::metadata(model)?;
    chown(partial, Some(model.uid()), Some(model.gid()))?;
    fs::set_permissions(partial, model.permissions())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_a_link_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a"), folder.path().join("link"));
        std::os::unix::fs::symlink("a", &link).unwrap();
        replace(&file, b"one", None).unwrap();
        replace(&link, b"two", Some(&file)).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"two");
        assert!(link.is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
    }

    #[test]
    fn a_device_is_written_to_and_what_fails_leaves_nothing() {
        replace(Path::new("/dev/null"), b"x", None).unwrap();
        assert!(!Path::new("/dev/null").is_file());
        let folder = tempfile::tempdir().unwrap();
        let missing_model = folder.path().join("model");
        assert!(replace(&folder.path().join("a"), b"x", Some(&missing_model)).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
