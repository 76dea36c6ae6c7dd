//! Names that a mistyped one may have meant.

/// Up to three of `known` nearest to `wanted`, nearest first; none that is too far off to help.
pub fn matches<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    let allowed = (wanted.chars().count() / 3).max(1);
    let score = |name: &str| {
        let contained = wanted.len() > 2 && (name.contains(wanted) || wanted.contains(name));
        let distance = distance(wanted, name);
        (contained || distance <= allowed).then_some((!contained, distance))
    };
    let mut scored: Vec<_> = known
        .filter_map(|name| score(name).map(|s| (s, name.to_owned())))
        .collect();
    scored.sort();
    scored.dedup();
    scored.into_iter().take(3).map(|(_, name)| name).collect()
}

/// Optimal string alignment distance: insertions, deletions, substitutions, swaps of neighbours.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0_usize; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j - 1] + change)
                .min(rows[i - 1][j] + 1)
                .min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_understood() {
        let known = ["latency_p50_ms", "latency_p90_ms", "rss_peak_bytes"];
        assert_eq!(
            matches("latencyp50_ms", known.into_iter())[0],
            "latency_p50_ms"
        );
        assert_eq!(
            matches("rss_paek_bytes", known.into_iter()),
            ["rss_peak_bytes"]
        );
        assert_eq!(matches("peak", known.into_iter()), ["rss_peak_bytes"]);
        assert!(matches("zzz", known.into_iter()).is_empty());
    }

    #[test]
    fn distances_match_hand_worked_values() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("", "abc"), 3);
    }
}
