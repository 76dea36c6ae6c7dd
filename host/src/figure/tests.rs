//! Figures are well-formed, have units on their axes, and say what they leave out.

use std::collections::BTreeMap;

use super::*;
use crate::contention::axis::XAxis;
use crate::contention::curve::Ratio;
use crate::contention::knee::{Fit, Knee, Slope};
use crate::contention::levels::Curve;
use crate::contention::report::{self, Experiment};
use crate::contention::testing;
use crate::contention::verdict::Verdict;
use crate::figure::forest::Row;
use crate::figure::phases::Phases;
use crate::figure::steps::Step;
use crate::figure::sweep::Point;
use crate::figure::timeline::{Lane, Track, Tracker};
use crate::figure::warmup::{Life, Living};
use crate::stats::outlier;
use crate::summary::tests::{hand_worked, view};
use crate::summary::{ColdStart, Latency, MemoryUse};

/// Names of elements and their nesting, or why the text is no XML.
fn outline(svg: &str) -> Result<Vec<String>, String> {
    let (mut open, mut seen): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut rest = svg;
    while let Some(at) = rest.find('<') {
        let text = &rest[..at];
        if text.contains('>') || text.split('&').skip(1).any(|t| !t.contains(';')) {
            return Err(format!("bare character in {text:?}"));
        }
        let end = at + rest[at..].find('>').ok_or("an element that does not end")?;
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            let begun = open.pop();
            if begun.as_deref() != Some(name) {
                return Err(format!("{name} ends {begun:?}"));
            }
            continue;
        }
        if tag.matches('"').count() % 2 == 1 {
            return Err(format!("an attribute without its end in {tag:?}"));
        }
        let name = tag.split([' ', '/']).next().unwrap_or_default();
        let class = tag
            .split("class=\"")
            .nth(1)
            .and_then(|t| t.split('"').next());
        seen.push(match (name, class) {
            ("g", Some(class)) => format!("{}g.{class}", "  ".repeat(open.len())),
            _ => format!("{}{name}", "  ".repeat(open.len())),
        });
        if !tag.ends_with('/') {
            open.push(name.to_owned());
        }
    }
    match open.as_slice() {
        [] => Ok(seen),
        _ => Err(format!("left open: {open:?}")),
    }
}

/// The groups of a figure, which scripts and readers find their way by.
fn groups(figure: &Figure) -> Vec<String> {
    let all = outline(&figure.svg).unwrap();
    let groups = all.iter().filter_map(|line| line.trim().strip_prefix("g."));
    groups.map(str::to_owned).collect()
}

fn labelled<T>(label: &str, of: T) -> Labelled<T> {
    Labelled {
        label: label.into(),
        of,
    }
}

fn assert_sound(figure: &Figure) {
    outline(&figure.svg).unwrap();
    // In a file it stands on paper, which comes before all that is drawn.
    outline(&figure.file()).unwrap();
    assert!(figure.file().contains("</desc>\n<rect width=\"100%\""));
    assert!(figure.svg.contains("role=\"img\""), "{}", figure.name);
    assert!(!figure.about.is_empty());
    assert!(!figure.svg.contains("NaN") && !figure.svg.contains("inf"));
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    assert!(figure.name.chars().all(plain), "{}", figure.name);
}

#[test]
fn a_distribution_marks_percentiles_and_their_bounds() {
    let (_dir, store) = hand_worked();
    let view = view(&store);
    let latency = Latency::of(&view).unwrap();
    let measured = view
        .counting()
        .flat_map(|repeat| repeat.trials.measured.clone());
    let mut sorted: Vec<i64> = measured.collect();
    sorted.sort_unstable();
    let figure = distribution("threads=2 <&>", &latency, &sorted).unwrap();
    assert_sound(&figure);
    let expected = [
        "y-axis",
        "histogram",
        "y-axis",
        "x-axis",
        "ecdf",
        "percentiles",
    ];
    assert_eq!(groups(&figure), expected);
    assert!(
        figure.svg.contains("latency in ms"),
        "the unit stands on the axis"
    );
    // 33 trials of 1 to 11 ms: p50 has a bound, p99 has none.
    assert!(
        figure.about.contains("33 trials of 3 repeats"),
        "{}",
        figure.about
    );
    assert!(
        figure.about.contains("p50 6 ms with bound"),
        "{}",
        figure.about
    );
    assert!(
        !figure.about.contains("p99 11 ms with bound"),
        "{}",
        figure.about
    );
    assert_eq!(figure.name, "latency-threads-2");
}

#[test]
fn a_time_line_marks_outliers_and_says_what_it_leaves_out() {
    let trials = |count: u32| -> Vec<(f64, f64)> {
        let latency = |i: u32| {
            if i == 700 {
                9e6
            } else {
                1e6 + f64::from(i % 7) * 1e3
            }
        };
        (0..count)
            .map(|i| (f64::from(i) / 1e3, latency(i)))
            .collect()
    };
    let track = |repeat, count: u32| -> Track {
        let trials = trials(count);
        let latencies: Vec<f64> = trials.iter().map(|(_, ns)| *ns).collect();
        let mut tracker = Tracker::new(repeat, trials.len(), outlier::Scale::of(&latencies));
        trials.iter().for_each(|(s, ns)| tracker.push(*s, *ns));
        tracker.finish()
    };
    let lane = |points: &[(f64, f64)]| Lane {
        name: "therm.zone_0.temp".into(),
        unit: "°C".into(),
        points: points.to_vec(),
    };
    let lanes = [
        lane(&[(-3.0, 20.0), (0.1, 41.0), (0.9, 45.0)]),
        lane(&[(0.1, 3.0)]),
    ];
    let figure = timeline("a", &[track(0, 1000), track(1, 50_000)], &lanes).unwrap();
    assert_sound(&figure);
    // A sample before the window and a channel of one sample make no line.
    assert_eq!(
        groups(&figure)
            .iter()
            .filter(|name| *name == "lane")
            .count(),
        1
    );
    assert!(figure.svg.contains("therm.zone_0.temp during repeat 0"));
    assert!(figure.svg.contains("trial 700: 9 ms"));
    assert!(
        figure.about.contains("2 of them outliers"),
        "{}",
        figure.about
    );
    assert!(
        figure.about.contains("Repeat 1: of 50\u{202f}000 trials"),
        "{}",
        figure.about
    );
    assert!(!figure.about.contains("Repeat 0"), "{}", figure.about);
    assert!(figure.svg.len() < 200_000, "{}", figure.svg.len());
    let many: Vec<Track> = (0..9).map(|repeat| track(repeat, 20)).collect();
    assert!(
        timeline("a", &many, &[])
            .unwrap()
            .about
            .contains("Of 9 repeats the first 5")
    );
    assert_eq!(timeline("a", &[Track::default()], &[]), None);
}

#[test]
fn warm_up_stands_left_of_zero() {
    let life = |measured: u32| -> Life {
        let mut living = Living::new(0, measured as usize);
        [9e6, 3e6].into_iter().for_each(|ns| living.push_before(ns));
        (0..measured).for_each(|_| living.push_measured(1e6));
        living.finish()
    };
    let figure = warmup("a", &[life(20)]).unwrap();
    assert_sound(&figure);
    assert_eq!(groups(&figure), ["legend", "y-axis", "x-axis", "lives"]);
    assert!(figure.svg.contains("before zero: cold and warm-up"));
    assert!(
        !figure.about.contains("median of up to"),
        "few trials are drawn one by one"
    );
    let long = warmup("a", &[life(100_000)]).unwrap();
    assert!(
        long.about.contains("median of up to 250 trials"),
        "{}",
        long.about
    );
    assert!(long.svg.len() < 20_000, "{}", long.svg.len());
    assert_eq!(warmup("a", &[]), None);
    assert_eq!(warmup("a", &[Life::default()]), None);
}

#[test]
fn stages_and_memory_that_nobody_recorded_are_not_drawn() {
    let known = ColdStart {
        load_ns: Some(3e7),
        first_ns: Some(2e7),
        total_ns: Some(5e7),
        ..ColdStart::default()
    };
    let cases = [labelled("a", known), labelled("b", ColdStart::default())];
    let figure = cold(&cases).unwrap();
    assert_sound(&figure);
    assert!(figure.svg.contains("a: load 30 ms") && figure.svg.contains("50 ms"));
    assert!(!figure.svg.contains("a: compile"), "it was not recorded");
    assert!(!figure.svg.contains("b: "), "nothing of it was recorded");
    assert_eq!(cold(&cases[1..]), None);

    let (_dir, store) = hand_worked();
    let of_case = MemoryUse::of(&view(&store));
    let figure = memory(&[labelled("a", of_case)]).unwrap();
    assert_sound(&figure);
    assert!(
        figure.svg.contains("a: highest of all 73 MiB"),
        "{}",
        figure.svg
    );
    assert_eq!(memory(&[labelled("a", MemoryUse::default())]), None);
}

fn point(axes: &[(&str, &str)], p50_ms: Option<f64>) -> Point {
    Point {
        label: format!("{axes:?}"),
        axes: axes
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        p50_ns: p50_ms.map(|ms| ms * 1e6),
        interval: p50_ms.map(|ms| (ms * 0.98e6, ms * 1.02e6)),
        invalid: false,
    }
}

#[test]
fn a_sweep_over_two_axes_has_lines_and_a_heat_map() {
    let mut points = Vec::new();
    for (threads, scale) in [("1", 4.0), ("2", 2.0), ("4", 1.5)] {
        for (io, extra) in [("resident", 0.0), ("transfer", 0.5)] {
            points.push(point(
                &[("threads", threads), ("io", io)],
                Some(scale + extra),
            ));
        }
    }
    points.push(point(&[("threads", "8"), ("io", "transfer")], None));
    let figures = sweep(&points);
    figures.iter().for_each(assert_sound);
    let names: Vec<&str> = figures.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["sweep-threads", "heat-io-threads"]);
    assert!(
        figures[0]
            .svg
            .contains("threads=2, io=transfer: p50 2.5 ms, 2.45 ms to 2.55 ms")
    );
    assert!(
        figures[0].about.contains("1 cases have no figure"),
        "{}",
        figures[0].about
    );
    assert!(
        figures[1].about.contains("from 1.5 ms to 4.5 ms"),
        "{}",
        figures[1].about
    );
    // Four threads by two ways of input, and names are drawn once.
    assert_eq!(figures[1].svg.matches("<rect").count(), 8);
    assert_eq!(sweep(&points[..1]), []);
}

#[test]
fn a_forest_plot_has_what_stands_out_in_another_shape() {
    let row = |label: &str, change: Option<f64>, stands_out| Row {
        label: label.into(),
        verdict: if stands_out { "slower" } else { "undecided" },
        change,
        interval: change.map(|c| (c - 0.01, c + 0.01)),
        min_effect: Some(0.03),
        stands_out,
    };
    let rows = [
        row("a", Some(0.08), true),
        row("b", Some(0.002), false),
        row("c", None, false),
    ];
    let figure = forest("B against A", &rows).unwrap();
    assert_sound(&figure);
    assert!(
        figure
            .svg
            .contains("a: +8 %, between +7 % and +9 %: slower")
    );
    assert!(
        figure.about.contains("1 rows have no change"),
        "{}",
        figure.about
    );
    assert_eq!(forest("none", &rows[2..]), None);
}

/// Two repeats whose stages swap: load 1 and 9 ms, first run 9 and 1 ms. The geometric mean of each stage is
/// 3 ms, and each repeat took 10.
#[test]
fn the_end_of_a_cold_bar_is_the_figure_of_the_tables() {
    let swapped = ColdStart {
        load_ns: Some(3e6),
        first_ns: Some(3e6),
        total_ns: Some(1e7),
        ..ColdStart::default()
    };
    let figure = cold(&[labelled("a", swapped)]).unwrap();
    assert_sound(&figure);
    assert_eq!(
        marks(&figure, "cases"),
        ["a: load 3 ms", "a: first run 3 ms"]
    );
    assert!(figure.svg.contains(">10 ms<") && !figure.svg.contains(">6 ms<"));
    assert!(
        figure.about.contains("as the tables have it"),
        "{}",
        figure.about
    );

    let unfinished = ColdStart {
        load_ns: Some(3e6),
        ..ColdStart::default()
    };
    let figure = cold(&[labelled("a", unfinished)]).unwrap();
    assert!(
        figure.svg.contains(">–<"),
        "no first run, no time to a result"
    );
}

#[test]
fn phases_add_up_to_the_trial_and_the_rest_has_a_name() {
    let told = |phases: &[(&str, f64)], trial: f64| Phases {
        phases: phases
            .iter()
            .map(|(name, ns)| ((*name).to_owned(), *ns))
            .collect(),
        trial,
    };
    let cases = [
        labelled("a", told(&[("preprocess", 1e6), ("forward", 6e6)], 8e6)),
        // Phases that overlap: more than the trial.
        labelled("b", told(&[("forward", 9e6), ("postprocess", 2e6)], 10e6)),
        labelled("c", Phases::default()),
    ];
    let figure = phases(&cases).unwrap();
    assert_sound(&figure);
    assert_eq!(groups(&figure), ["legend", "x-axis", "cases"]);
    let said: Vec<&str> = marks(&figure, "cases");
    let expected = [
        "a: preprocess 1 ms",
        "a: forward 6 ms",
        "a: everything else 1 ms",
        "b: forward 9 ms",
        "b: postprocess 2 ms",
    ];
    assert_eq!(said, expected);
    assert_eq!(phases(&cases[2..]), None);

    let many: Vec<(String, f64)> = (0..9).map(|i| (format!("p{i}"), 1e6)).collect();
    let many = Phases {
        phases: many,
        trial: 9e6,
    };
    let figure = phases(&[labelled("many", many)]).unwrap();
    let said = marks(&figure, "cases");
    assert_eq!(said.len(), 6);
    assert_eq!(said[5], "many: everything else 4 ms");
}

/// What the marks of a group say, in their order.
fn marks<'a>(figure: &'a Figure, group: &str) -> Vec<&'a str> {
    let (_, rest) = figure
        .svg
        .split_once(&format!("<g class=\"{group}\">"))
        .unwrap();
    let (inside, _) = rest.split_once("</g>").unwrap();
    let titles = inside.split("<title>").skip(1);
    titles
        .filter_map(|rest| rest.split("</title>").next())
        .collect()
}

#[test]
fn steps_are_a_line_with_their_spread_until_there_are_too_many_to_mark() {
    let step = |number: u32| Step {
        number,
        p10: 1e6,
        p50: 1e6 + f64::from(number) * 1e4,
        p90: 3e6,
    };
    let few = labelled("a", (0..4).map(step).collect::<Vec<_>>());
    let none = labelled("b", Vec::new());
    let figure = steps(&[few, none.clone()], 1).unwrap();
    assert_sound(&figure);
    assert_eq!(groups(&figure), ["y-axis", "x-axis", "steps"]);
    assert_eq!(marks(&figure, "steps").len(), 4);
    assert_eq!(
        marks(&figure, "steps")[3],
        "a: step 3, p50 1.03 ms, p10 1 ms, p90 3 ms"
    );
    assert!(
        !figure.about.contains("lowest and highest"),
        "{}",
        figure.about
    );

    let many = labelled("a", (0..3000).map(step).collect::<Vec<_>>());
    let figure = steps(&[many], 7).unwrap();
    assert_sound(&figure);
    assert!(marks(&figure, "steps").is_empty());
    assert!(
        figure
            .about
            .contains("Of up to 3000 steps the lowest and highest"),
        "{}",
        figure.about
    );
    assert!(
        figure.about.contains("one in 7 was looked at"),
        "{}",
        figure.about
    );
    assert!(figure.svg.len() < 20_000, "{}", figure.svg.len());
    assert_eq!(steps(&[none], 1), None);
}

/// p50 and p99 of a condition over those of the idle board.
fn loaded(condition: &str, gbps: Option<f64>, ratio: f64, valid: bool) -> report::Point {
    let of = |ratio: f64| Ratio {
        ratio,
        ci95: Some((ratio - 0.01, ratio + 0.01)),
        rounds: 5,
        enough: true,
    };
    let slowdown = [("latency_p50_ms", ratio), ("latency_p99_ms", 2.0 * ratio)];
    report::Point {
        x_bps: gbps.map(|gbps| gbps * 1e9),
        achieved_bps: gbps.map(|gbps| gbps * 1e9),
        valid_repeats: if valid { 5 } else { 1 },
        valid,
        slowdown: slowdown
            .map(|(name, ratio)| (name.to_owned(), of(ratio)))
            .into(),
        ..testing::point(condition)
    }
}

fn experiment(points: Vec<report::Point>, knee: Option<Knee>) -> Experiment {
    let slope = |value: f64| Slope { value, ci95: None };
    let levels = points
        .iter()
        .filter(|point| point.condition.starts_with("mem_copy"));
    Experiment {
        axes: BTreeMap::new(),
        simulated: false,
        x_axis: XAxis::Stressors,
        currency: XAxis::Stressors.currency(),
        ladders: Vec::new(),
        baseline: testing::baseline("i"),
        curves: vec![Curve {
            stressor: "mem_copy:cpu1".into(),
            fit: Some(Fit {
                slope: slope(0.05),
                height_at_zero: 1.0,
                knee,
                points: 20,
            }),
            sensitivity_ms_per_gbps: None,
            slo: None,
            conditions: levels.map(|point| point.condition.clone()).collect(),
        }],
        worst: Some("mem_copy:cpu1".into()),
        slowest: None,
        verdict: Verdict::Slowed,
        slo: None,
        recovery: None,
        points,
    }
}

#[test]
fn a_contention_curve_has_its_knee_and_crosses_out_what_does_not_count() {
    let points = vec![
        loaded("spin:cpu1", Some(0.0), 1.02, true),
        loaded("mem_copy:cpu1@30%", Some(3.0), 1.05, true),
        loaded("mem_copy:cpu1@60%", Some(6.0), 1.5, false),
        loaded("mem_copy:cpu1", Some(9.0), 1.4, true),
        loaded("io", None, 1.1, true),
    ];
    let slope = |value: f64| Slope { value, ci95: None };
    let knee = Knee {
        at: 4.0,
        ci95: (Some(3.0), None),
        before: slope(0.01),
        after: slope(0.07),
        height: 1.05,
    };
    let figures = contention("", &experiment(points, Some(knee)));
    figures.iter().for_each(assert_sound);
    let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
    assert_eq!(names, ["contention", "conditions"]);
    let [curve, rows] = figures.as_slice() else {
        panic!("two figures");
    };
    let expected = [
        "legend", "y-axis", "fit", "knee", "idle", "points", "y-axis", "idle", "points", "x-axis",
    ];
    assert_eq!(groups(curve), expected);
    assert_eq!(
        marks(curve, "points"),
        [
            "mem_copy:cpu1@30%: p50 × 1.05, between 1.04 and 1.06, at 3 GB/s",
            "mem_copy:cpu1@60%: p50 × 1.5, between 1.49 and 1.51, at 6 GB/s; invalid",
            "mem_copy:cpu1: p50 × 1.4, between 1.39 and 1.41, at 9 GB/s",
            "spin:cpu1: p50 × 1.02, between 1.01 and 1.03",
        ]
    );
    for words in [
        "knee at 4 GB/s, above 3 GB/s; the levels do not bound it from above",
        "Crossed out, since too few repeats had the load they were meant to have, or the board changed \
         meanwhile: mem_copy:cpu1@60%.",
        "traffic or latency is not known: 1.",
    ] {
        assert!(
            curve.about.contains(words),
            "no {words:?} in {}",
            curve.about
        );
    }
    // The slowest first, and the worst of those that count by name.
    let order: Vec<&str> = marks(rows, "rows")
        .iter()
        .filter_map(|m| m.split(": ").next())
        .collect();
    let expected = [
        "mem_copy:cpu1@60%",
        "mem_copy:cpu1",
        "io",
        "mem_copy:cpu1@30%",
        "spin:cpu1",
    ];
    assert_eq!(order, expected);
    assert!(rows.svg.contains("× 1.5, invalid") && rows.svg.contains("× 1.4, the worst"));
}

#[test]
fn loads_without_levels_have_no_curve() {
    let points = vec![loaded("spin:cpu1", Some(0.0), 1.02, true)];
    let figures = contention("threads=2", &experiment(points, None));
    let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
    assert_eq!(names, ["conditions-threads-2"]);
    assert!(contention("", &experiment(Vec::new(), None)).is_empty());
}

#[test]
fn long_names_keep_the_end_that_tells_them_apart() {
    let case = |share: &str| ColdStart {
        load_ns: Some(share.len() as f64 * 1e6),
        ..ColdStart::default()
    };
    let named = |share: &str| labelled(&format!("condition=mem_copy:cpu0@{share}"), case(share));
    let figure = cold(&[named("30%"), named("60%")]).unwrap();
    for words in [">mem_copy:cpu0@30%<", ">mem_copy:cpu0@60%<"] {
        assert!(figure.svg.contains(words), "no {words}");
    }
}
