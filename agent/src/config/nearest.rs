//! The known name that a mistyped one was probably meant to be.

/// The name of `known` that is nearest to `written`, if one is near enough to be meant: case and `-` for `_` aside, at
/// most one edit in every three characters.
pub fn nearest<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let written = folded(written);
    let allowed = (written.len() / 3).clamp(1, 3);
    known
        .into_iter()
        .map(|name| (edits(&written, &folded(name)), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, name)| name)
}

/// Lower case, with `_` for `-`, cut at a length beyond any name of ours.
fn folded(name: &str) -> Vec<char> {
    name.chars().take(64).flat_map(char::to_lowercase).map(|c| if c == '-' { '_' } else { c }).collect()
}

/// Number of characters to insert, delete or replace, or of neighbours to swap, to make one name the other (optimal
/// string alignment).
fn edits(left: &[char], right: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, r) in right.iter().enumerate() {
            let replaced = last[j] + usize::from(l != r);
            let mut best = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *l == right[j - 1] && left[i - 1] == *r {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 5] = ["webhook", "webhook_file", "group_wait", "smtp", "log"];

    #[test]
    fn a_slip_of_the_finger_finds_its_name() {
        assert_eq!(nearest("webhok", KNOWN), Some("webhook"));
        assert_eq!(nearest("webohok", KNOWN), Some("webhook"));
        assert_eq!(nearest("group-wait", KNOWN), Some("group_wait"));
        assert_eq!(nearest("GROUP_WAIT", KNOWN), Some("group_wait"));
        assert_eq!(nearest("webhookfile", KNOWN), Some("webhook_file"));
        assert_eq!(nearest("smpt", KNOWN), Some("smtp"));
    }

    #[test]
    fn another_word_finds_none() {
        assert_eq!(nearest("colour", KNOWN), None);
        assert_eq!(nearest("", KNOWN), None);
        assert_eq!(nearest("x", ["ab"]), None);
    }
}
