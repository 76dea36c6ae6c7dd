//! Names that a mistyped one may have meant.

use edgedyno_shared::near::distance;

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
}
