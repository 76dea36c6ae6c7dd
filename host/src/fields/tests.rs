//! The table is sound, documented and says what the summary says.

use std::collections::BTreeSet;

use crate::golden;
use crate::summary::summarise;
use crate::summary::tests::{hand_worked, view};

use super::*;

#[test]
fn names_are_unique_snake_case_with_the_unit_last() {
    let mut seen = BTreeSet::new();
    for field in all() {
        assert!(seen.insert(field.name), "{} twice", field.name);
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(field.name.chars().all(plain), "{}", field.name);
        let ending = match field.unit {
            Unit::Milliseconds => "_ms",
            Unit::Hertz => "_hz",
            Unit::Bytes => "_bytes",
            Unit::Count => "_count",
            Unit::Share => "_share",
            Unit::Celsius => "_c",
            Unit::Watts => "_w",
            Unit::Joules => "_j",
            Unit::Figure | Unit::Text | Unit::Flag => "",
        };
        assert!(field.name.ends_with(ending), "{}", field.name);
        assert!(!field.definition.contains('|') && !field.source.contains('|'));
    }
}

#[test]
fn values_have_the_type_their_unit_says() {
    let (_dir, store) = hand_worked();
    let summary = summarise(&view(&store));
    for field in all() {
        let json = serde_json::Value::from(&(field.get)(&summary));
        let fits = match field.unit.json_type() {
            "number" => json.is_number(),
            "integer" => json.is_u64(),
            "string" => json.is_string(),
            _ => json.is_boolean(),
        };
        assert!(fits || json.is_null(), "{}: {json}", field.name);
    }
}

#[test]
fn a_bound_below_its_percentile_is_a_flag_beside_it() {
    let (_dir, store) = hand_worked();
    let mut summary = summarise(&view(&store));
    let flag = |summary: &CaseSummary, name: &str| (find(name).unwrap().get)(summary).to_string();
    assert_eq!(flag(&summary, "latency_p95_repeats_differ"), "false");
    let p95 = &mut summary.latency.as_mut().unwrap().distribution.p95;
    (p95.value, p95.bound) = (2.769e6, Some(2.755e6));
    assert_eq!(flag(&summary, "latency_p95_repeats_differ"), "true");
    assert_eq!(flag(&summary, "latency_p99_repeats_differ"), "false");
}

#[test]
fn values_match_hand_worked_figures() {
    let (_dir, store) = hand_worked();
    let summary = summarise(&view(&store));
    let bare = |name: &str| (find(name).unwrap().get)(&summary).to_string();
    assert_eq!(bare("latency_min_ms"), "1");
    assert_eq!(bare("latency_max_ms"), "11");
    assert_eq!(bare("trials_count"), "33");
    assert_eq!(
        bare("cold_second_ms"),
        (find("cold_second_ms").unwrap().get)(&summary)
            .as_f64()
            .unwrap()
            .to_string()
    );
    assert_eq!(bare("rss_peak_bytes"), (73_u64 << 20).to_string());
    assert_eq!(bare("cpus_observed"), "2-3");
    assert_eq!(bare("input_shapes"), "x f32 1x3x224x224");
    assert_eq!(bare("run_created"), "2026-09-21T14:13:20Z");
    assert_eq!(bare("outputs_cosine"), "null");
    assert_eq!(bare("latency_p99_99_bound_ms"), "null");
    assert_eq!(bare("simulated"), "false");
    let p50 = (find_for_condition("p50").unwrap().get)(&summary)
        .as_f64()
        .unwrap();
    assert!((p50 - 6.0).abs() < 1e-9, "{p50}");
}

#[test]
fn conditions_have_short_names() {
    let long = |short| find_for_condition(short).unwrap().name;
    assert_eq!(long("p99.99"), "latency_p99_99_ms");
    assert_eq!(long("rate"), "rate_hz");
    assert_eq!(long("mean"), "latency_mean_ms");
    assert_eq!(long("rss_peak_bytes"), "rss_peak_bytes");
    assert!(find_for_condition("p98").is_err());
}

#[test]
fn a_mistyped_name_gets_a_hint() {
    let error = find("latency_p50").unwrap_err();
    assert!(error.hint().contains("latency_p50_ms"), "{}", error.hint());
}

#[test]
fn the_page_is_up_to_date() {
    golden::check("docs/fields.md", &page());
}
