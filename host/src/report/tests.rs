//! A report of stored runs: whole, self-contained, and with what a reader looks for first in its place.

use std::collections::BTreeMap;

use edgedyno_shared::case::{Case, Condition};

use super::*;
use crate::compare::load;
use crate::compare::matching;
use crate::compare::metric;
use crate::compare::report::{Ask, Comparison, Named};
use crate::compare::sessions::Sessions;
use crate::contention::curve::Ratio;
use crate::contention::limit::Limit;
use crate::contention::testing::measure;
use crate::findings::{Finding, Level};
use crate::source::Source;
use crate::store::sample::{self, run_id};
use crate::store::{NewRun, Store};
use crate::summary::tests::hand_worked;

fn chapter(store: &Store) -> Chapter {
    let source = source(store);
    let cases = source.cases().unwrap();
    gather("a", &source, &cases, Room::USUAL).unwrap()
}

fn source(store: &Store) -> Source {
    Source::Stored {
        store: Store::open_reading(store.dir()).unwrap(),
        run: run_id("a"),
    }
}

/// Where each of these stands, in this order.
fn in_order(page: &str, words: &[&str]) {
    let mut from = 0;
    for word in words {
        let found = page[from..].find(word);
        from += found.unwrap_or_else(|| panic!("no {word:?} after {from}"));
    }
}

#[test]
fn findings_come_first_and_the_page_needs_nothing_from_elsewhere() {
    let (_dir, store) = hand_worked();
    let page = page("report of a", &[chapter(&store)], None);
    in_order(
        &page,
        &[
            "<!DOCTYPE html>",
            "<html lang=\"en\">",
            "What was measured",
            "Findings",
            "few_samples",
            "Figures of every case",
            "6 ms",
            "Drawings",
            "<svg",
            "Boards and settings",
            "kernel_release",
            "Plans and commands",
            "</html>",
        ],
    );
    for forbidden in ["http://", "https://", "src=", "@import", "url("] {
        let allowed = match forbidden {
            // The name of the SVG format, which nothing is fetched by.
            "http://" => page.replace("http://www.w3.org/2000/svg", ""),
            _ => page.clone(),
        };
        assert!(!allowed.contains(forbidden), "{forbidden}");
    }
    // Ids are unique, and every label that is referred to is there.
    let ids: Vec<&str> = page
        .split(" id=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    let unique: std::collections::BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len(), "{ids:?}");
    let referred = page.split("aria-labelledby=\"").skip(1);
    for name in referred
        .filter_map(|rest| rest.split('"').next())
        .flat_map(|l| l.split(' '))
    {
        assert!(ids.contains(&name), "nothing is called {name}");
    }
}

#[test]
fn the_data_behind_the_figures_is_embedded() {
    let (_dir, store) = hand_worked();
    let page = page("a </script> in the title", &[chapter(&store)], None);
    assert!(page.contains("<h1>a &lt;/script&gt; in the title</h1>"));
    let (_, data) = page.split_once("id=\"report-data\">").unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["document"], "edgedyno/report-data/1");
    let case = &data["runs"][0]["cases"][0];
    let p50 = case["summary"]["fields"]["latency_p50_ms"]
        .as_f64()
        .unwrap();
    assert!((p50 - 6.0).abs() < 1e-9, "{p50}");
    assert_eq!(case["trials"].as_array().unwrap().len(), 3);
    let latencies: Vec<i64> = (1..=11).map(|ms| ms * 1_000_000).collect();
    assert_eq!(
        case["trials"][0]["latency_ns"],
        serde_json::json!(latencies)
    );
    assert_eq!(case["trials"][0]["decimated"], false);
    assert!(page.contains("Every measured trial is embedded"));
}

#[test]
fn very_many_trials_are_embedded_in_part_and_that_is_said() {
    let (_dir, store) = hand_worked();
    let source = source(&store);
    let cases = source.cases().unwrap();
    let room = Room {
        a_case: 30,
        all: 1000,
    };
    let chapter = gather("a", &source, &cases, room).unwrap();
    assert!(
        chapter.parts[0]
            .trials
            .iter()
            .all(|trials| trials.nanoseconds.len() <= 10)
    );
    let page = page("a", &[chapter], None);
    assert!(page.contains("the lowest and highest of each stretch are embedded"));
}

#[test]
fn several_runs_stand_side_by_side_with_their_comparison() {
    let (_dir, store) = hand_worked();
    let source = source(&store);
    let cases = source.cases().unwrap();
    let metrics = vec![metric::find("p50").unwrap()];
    let arms = load::arms(&source, &cases, &metrics).unwrap();
    let matched = matching::two_runs(arms.clone(), arms, None).unwrap();
    let ask = Ask {
        metrics,
        rule: None,
        min_effect: None,
        allowed: Vec::new(),
        force: false,
    };
    let named = |name: &str| Named {
        name: name.into(),
        run: None,
    };
    let sessions = Sessions::default();
    let comparison = Comparison::of(named("a"), named("b"), matched, ask, &sessions);
    let compared = Compared::of(&comparison);
    let chapters = [chapter(&store), chapter(&store)];
    let page = page("two", &chapters, Some(&compared));
    in_order(
        &page,
        &["Comparison", "verdict", "b against a", "<h3>Run a</h3>"],
    );
    assert!(page.contains("No setting that was read differs between them"));
    let ids: Vec<&str> = page
        .split(" id=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    let unique: std::collections::BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len(), "{ids:?}");
}

/// The first screen without its marks.
fn at_a_glance(page: &str) -> String {
    let (_, rest) = page.split_once("<section id=\"what\"").unwrap();
    let (section, _) = rest.split_once("</section>").unwrap();
    let parts = section
        .split('<')
        .map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    parts.collect()
}

#[test]
fn the_first_screen_answers_what_a_stranger_asks() {
    let (_dir, store) = hand_worked();
    let text = at_a_glance(&page("a", &[chapter(&store)], None));
    in_order(
        &text,
        &[
            "What was measured",
            "one case",
            "On what",
            "board local",
            "Warm",
            // Type 7 over 1 to 11 ms: 1 + 0.99 * 10.
            "a run takes 6 ms (p50); p99 10.9 ms",
            "too few trials for a sure p99",
            "Cold",
            "times its warm p50",
            "How sure",
            "33 trials in 3 fresh processes",
            "What limits it",
            "not recorded: CPU clock, temperature, memory traffic, power",
        ],
    );
    assert!(!text.contains("Best case"), "there is one case");
    assert!(!text.contains("Worst condition"), "there is no load");
    assert!(!text.contains("Different"), "there is one board");
}

#[test]
fn what_differs_between_two_runs_is_said_first() {
    let (_dir, store) = hand_worked();
    let (a, mut b) = (chapter(&store), chapter(&store));
    "b".clone_into(&mut b.name);
    b.parts[0].summary.environment.os = Some("another system".into());
    let page = page("two", &[a, b], None);
    let text = at_a_glance(&page);
    in_order(&text, &["Different", "operating system", "Run a", "Run b"]);
    in_order(
        &page,
        &[
            "These differ:",
            "operating system",
            "<table>",
            "operating system",
            "differs",
            "another system",
        ],
    );
    // Sorted before everything that is the same.
    let (_, table) = page.split_once("These differ").unwrap();
    let (_, rows) = table.split_once("<tbody>").unwrap();
    assert!(
        rows.trim_start()
            .starts_with("<tr><th scope=\"row\">operating system"),
        "{}",
        &rows[..80]
    );
}

#[test]
fn findings_of_one_kind_stand_together() {
    let (_dir, store) = hand_worked();
    let mut chapter = chapter(&store);
    let findings = &mut chapter.parts[0].summary.findings;
    let sample = findings[0].clone();
    findings.clear();
    for text in [
        "first words",
        "second words",
        "third words",
        "fourth",
        "fifth",
    ] {
        let mut finding = sample.clone();
        text.clone_into(&mut finding.text);
        findings.push(finding);
    }
    let page = page("a", &[chapter], None);
    in_order(
        &page,
        &[
            "5 times, the first:",
            "first words",
            "second words",
            "third words",
            "<summary>2 more of this kind",
            "fourth",
            "fifth",
        ],
    );
    assert_eq!(
        page.matches(&format!("<code>{}</code>", sample.code))
            .count(),
        1
    );
}

#[test]
fn a_bound_below_its_percentile_is_marked_in_the_table_and_explained_below_it() {
    let (_dir, store) = hand_worked();
    let mut chapter = chapter(&store);
    let summary = &mut chapter.parts[0].summary;
    let p99 = &mut summary.latency.as_mut().unwrap().distribution.p99;
    (p99.value, p99.bound, p99.enough) = (11e6, Some(10.5e6), true);
    let page = page("a", &[chapter], None);
    in_order(
        &page,
        &[
            "11 ms<br><small>bound 10.5 ms†</small>",
            "† bound below its percentile: repeats differ",
            "Drawings",
        ],
    );
}

#[test]
fn warnings_of_several_kinds_are_counted_as_such() {
    let (_dir, store) = hand_worked();
    let mut chapter = chapter(&store);
    let findings = &mut chapter.parts[0].summary.findings;
    let sample = findings[0].clone();
    let of = |code| Finding {
        code,
        level: Level::Warning,
        ..sample.clone()
    };
    *findings = ["load_high", "load_high", "swapping"].map(of).into();
    let text = at_a_glance(&page("a", &[chapter], None));
    assert!(text.contains("3 warnings of 2 kinds, none"), "{text}");
}

/// An idle case of 20 ms and one of 25 ms beside a load, of a run that was asked for this plan.
fn experiment(plan: serde_json::Value) -> Chapter {
    let (_dir, mut store) = sample::new_store();
    let run = NewRun {
        plan_json: plan,
        ..sample::new_run("r1", 1)
    };
    store.begin_run(&run).unwrap();
    let loaded = Case {
        condition: Condition("mem_read:cpu1".into()),
        ..sample::case()
    };
    for (case, took) in [(sample::case(), 20), (loaded, 25)] {
        measure(&mut store, &case, &[took * sample::MS; 20], &[]);
    }
    let source = Source::Stored {
        store: Store::open_reading(store.dir()).unwrap(),
        run: run_id("r1"),
    };
    let cases = source.cases().unwrap();
    gather("r1", &source, &cases, Room::USUAL).unwrap()
}

#[test]
fn a_limit_that_was_asked_for_is_answered_with_every_condition() {
    let slo = Limit {
        metric: "latency_p99_ms".into(),
        ns: 22e6,
    };
    let plan = serde_json::json!({ "repeats": 3, "slo": slo.to_json() });
    let page = page("r1", &[experiment(plan)], None);
    // Twenty trials in each of three repeats keep no p99, however close together they are.
    let few = "not enough trials for p99: 60 of 662";
    let answer = format!(
        "p99 ≤ 22 ms with its whole 95 % interval: shown to be kept by none; broken by mem_read:cpu1 \
         ({few}); not decided for idle (20 to 20 ms; {few})"
    );
    let answer = answer.as_str();
    in_order(
        &page,
        &[
            "Limit asked for",
            answer,
            "Under load",
            &format!("asked: {answer}."),
            "Slowdown by condition",
        ],
    );
}

#[test]
fn no_limit_has_no_line() {
    let page = page("r1", &[experiment(serde_json::json!({}))], None);
    assert!(page.contains("Under load"));
    assert!(!page.contains("Limit asked for") && !page.contains("asked: p99"));
}

/// Traffic that slows a model against the idle board may do no more than a busy CPU does: which of the two is
/// told, with the figures that it is told by.
#[test]
fn what_traffic_does_is_told_against_busy_cpus_where_those_were_measured() {
    let p50 = |ratio, low, high| {
        let ratio = Ratio {
            ratio,
            ci95: Some((low, high)),
            rounds: 4,
            enough: true,
        };
        BTreeMap::from([("latency_p50_ms".to_owned(), ratio)])
    };
    let told = |over_spin| {
        let mut chapter = experiment(serde_json::json!({}));
        let point = &mut chapter.loads[0].experiment.points[0];
        point.valid = true;
        point.achieved_bps = Some(17.17e9);
        point.slowdown = p50(1.145, 1.075, 1.218);
        point.over_spin = over_spin;
        at_a_glance(&page("a", &[chapter], None))
    };
    let beside_spin = told(p50(1.157, 0.99, 1.35));
    let words = "was not shown to slow it beyond what busy CPUs do: p50 × 1.157, 0.990 … 1.350 beside 17.17 GB/s";
    assert!(beside_spin.contains(words), "{beside_spin}");
    let alone = told(BTreeMap::new());
    let words = "slows it against the idle board: p50 × 1.145, 1.075 … 1.218 beside 17.17 GB/s";
    assert!(alone.contains(words), "{alone}");
}

#[test]
fn a_limit_without_an_experiment_says_that_nothing_tells() {
    let (_dir, store) = hand_worked();
    let mut chapter = chapter(&store);
    chapter.run.plan =
        serde_json::json!({ "slo": { "metric": "latency_p99_ms", "limit_ns": 22000000 } });
    let text = at_a_glance(&page("a", &[chapter], None));
    assert!(
        text.contains("p99 ≤ 22 ms; not told: an idle case"),
        "{text}"
    );
}
