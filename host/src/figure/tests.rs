//! Figures are well-formed, have units on their axes, and say what they leave out.

use super::*;
use crate::figure::forest::Row;
use crate::figure::sweep::Point;
use crate::figure::timeline::{Lane, Track};
use crate::figure::warmup::Life;
use crate::summary::tests::{hand_worked, view};
use crate::summary::{ColdStart, MemoryUse};

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
    assert!(figure.svg.contains("role=\"img\""), "{}", figure.name);
    assert!(!figure.about.is_empty());
    assert!(!figure.svg.contains("NaN") && !figure.svg.contains("inf"));
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    assert!(figure.name.chars().all(plain), "{}", figure.name);
}

#[test]
fn a_distribution_marks_percentiles_and_their_bounds() {
    let (_dir, store) = hand_worked();
    let figure = distribution("threads=2 <&>", &view(&store)).unwrap();
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
    assert_eq!(figure.name, "latency-threads-2----");
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
    let track = |repeat, count| Track {
        repeat,
        trials: trials(count),
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
    let life = Life {
        repeat: 0,
        nanoseconds: [9e6, 3e6].into_iter().chain([1e6; 20]).collect(),
        first_measured: 2,
    };
    let figure = warmup("a", &[life]).unwrap();
    assert_sound(&figure);
    assert_eq!(groups(&figure), ["legend", "y-axis", "x-axis", "lives"]);
    assert!(figure.svg.contains("before zero: cold and warm-up"));
    assert!(
        !figure.about.contains("median of up to"),
        "few trials are drawn one by one"
    );
    assert_eq!(warmup("a", &[]), None);
}

#[test]
fn stages_and_memory_that_nobody_recorded_are_not_drawn() {
    let known = ColdStart {
        load_ns: Some(3e7),
        first_ns: Some(2e7),
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
