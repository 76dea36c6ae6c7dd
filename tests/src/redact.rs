//! Taking out of a text what differs from run to run, so that the rest can be a snapshot.

use std::sync::OnceLock;

use regex::Regex;

/// Pattern and replacement, in the order they apply. Usable as insta's filters:
/// `insta::with_settings!({ filters => redact::FILTERS.to_vec() }, { ... })`.
pub const FILTERS: &[(&str, &str)] = &[
    // Folders of the sandbox and other temporary files, to the end of the path.
    (r#"(?:/var)?/(?:tmp|dev/shm)/[^\s'"`:,;()\[\]]+"#, "[path]"),
    // 2026-11-29T17:25:03.123Z, 2026-11-29 17:25, and a zone as an offset or a name in brackets.
    (
        r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\b",
        "[time]",
    ),
    // ULIDs and UUIDs: run, store and boot ids.
    (r"\b[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}\b", "[id]"),
    (
        r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b",
        "[id]",
    ),
    // Hashes in full, and cut to 8 digits or more where at least one is a letter.
    (r"\b(?:sha256[:-])?[0-9a-f]{32,64}\b", "[hash]"),
    (
        r"\b[0-9a-f]*(?:[0-9][a-f]|[a-f][0-9])[0-9a-f]{6,}\b",
        "[hash]",
    ),
    // Numbers with a unit. Which unit, stays: that is part of what a snapshot holds.
    (
        concat!(
            r"(?P<sign>[+\-±−]?)\b(?:\d{1,3}(?:[,_ ]\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?(?P<space>[ \u{a0}]?)",
            r"(?P<unit>(?:ns|µs|us|ms|s|min|h|[kMG]?Hz|[kKMGT]?i?B(?:/s)?|[mkµ]?[WVAJ]|°C|%)(?:\W|$))",
        ),
        "${sign}[n]${space}${unit}",
    ),
];

/// Applies [`FILTERS`].
pub fn redact(text: &str) -> String {
    static RULES: OnceLock<Vec<(Regex, &str)>> = OnceLock::new();
    let rules = RULES.get_or_init(|| compile(FILTERS));
    let mut text = text.to_owned();
    // A replacement can be what another number needed beside it: `0%0B`.
    loop {
        let once = apply(rules, &text);
        if once == text {
            return text;
        }
        text = once;
    }
}

/// [`redact`] for a table: after it, columns differ in width from run to run, so runs of blanks and
/// of rules are cut to one length.
pub fn redact_table(text: &str) -> String {
    const WIDTHS: &[(&str, &str)] = &[
        (r" {2,}", "  "),
        (r"([-=─━═])[-=─━═]+", "$1$1$1"),
        (r"(?m) +$", ""),
    ];
    static RULES: OnceLock<Vec<(Regex, &str)>> = OnceLock::new();
    apply(RULES.get_or_init(|| compile(WIDTHS)), &redact(text))
}

fn compile(rules: &[(&str, &'static str)]) -> Vec<(Regex, &'static str)> {
    rules
        .iter()
        .map(|(pattern, to)| {
            (
                Regex::new(pattern).expect("a constant pattern, tested"),
                *to,
            )
        })
        .collect()
}

fn apply(rules: &[(Regex, &str)], text: &str) -> String {
    let start = text.to_owned();
    rules.iter().fold(start, |text, (rule, to)| {
        rule.replace_all(&text, *to).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_varies_is_replaced_and_what_is_meant_stays() {
        for (text, expected) in [
            ("p50 4.81 ms (3x890)", "p50 [n] ms (3x890)"),
            ("p99 1,204.5µs +3.2%", "p99 [n]µs +[n]%"),
            (
                "rate 207.9 Hz, 12 MiB, 3.5 GB/s",
                "rate [n] Hz, [n] MiB, [n] GB/s",
            ),
            ("11 000 ms", "[n] ms"),
            ("rss_peak_bytes 4 threads", "rss_peak_bytes 4 threads"),
            ("--threads 2 --batch 1", "--threads 2 --batch 1"),
            ("float32 1x3x224x224", "float32 1x3x224x224"),
            ("--fail-over 3%", "--fail-over [n]%"),
            ("at 2026-11-29T17:25:03.12Z", "at [time]"),
            ("since 2026-11-29 17:25", "since [time]"),
            ("run 01JDWXYZ0123456789ABCDEFGH done", "run [id] done"),
            ("boot 6f1c0c1e-7a0b-4a3f-8c55-0f9a6c1d2e3f", "boot [id]"),
            ("model 3f786850e387 light", "model [hash] light"),
            (
                "cannot read /tmp/edt-x1y2/work/m.onnx: gone",
                "cannot read [path]: gone",
            ),
            ("arena on /dev/shm/edt-abc/a", "arena on [path]"),
            (
                "deadbeef is a word, decade too",
                "deadbeef is a word, decade too",
            ),
        ] {
            assert_eq!(redact(text), expected);
        }
    }

    #[test]
    fn a_table_no_longer_shows_its_widths() {
        let table = "case       p50\n─────────  ──────\nthreads=1  4.81 ms  \n";
        assert_eq!(
            redact_table(table),
            "case  p50\n───  ───\nthreads=1  [n] ms\n"
        );
    }

    #[test]
    fn numbers_side_by_side_are_all_redacted() {
        assert_eq!(redact("0%0B "), "[n]%[n]B ");
    }

    proptest! {
        #[test]
        fn redacting_twice_changes_nothing(text in "[0-9a-f.,:TZ /%±tmpsBHz\\[\\]\n-]{0,60}") {
            let once = redact(&text);
            prop_assert_eq!(redact(&once), once);
        }

        #[test]
        fn every_latency_is_redacted(value in 0.0..1e9_f64, unit in "ns|µs|ms|s") {
            prop_assert_eq!(redact(&format!("p50 {value:.2} {unit}")), format!("p50 [n] {unit}"));
        }
    }
}
