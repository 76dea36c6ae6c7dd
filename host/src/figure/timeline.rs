//! Trial after trial as time goes by, one panel for each repeat, with outliers marked.

use super::chart::{BELOW, Frame, LINE, SMALL, WIDTH, heading};
use super::decimate::min_max;
use super::palette::{ALARM, QUIET, SERIES};
use super::scale::{Scale, time_unit};
use super::svg::{Anchor, Svg};
use super::{Figure, name_of};
use crate::stats::outlier;
use crate::ui::units;

/// Panels of one figure.
const MOST_REPEATS: usize = 5;
const MOST_POINTS: usize = 2000;
const MOST_OUTLIERS: usize = 200;

/// Measured trials of one repeat: seconds since the first of them began, and nanoseconds it took.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Track {
    pub repeat: u32,
    pub trials: Vec<(f64, f64)>,
}

/// What the board did meanwhile: one telemetry channel during the first repeat that is drawn.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Lane {
    pub name: String,
    pub unit: String,
    /// Seconds since the first measured trial, and values.
    pub points: Vec<(f64, f64)>,
}

/// The repeats of a case, each in a panel of its own, and below them `lanes` of the first one on the same
/// axis of time; none where nothing is measured.
pub fn timeline(label: &str, tracks: &[Track], lanes: &[Lane]) -> Option<Figure> {
    let tracks: Vec<&Track> = tracks.iter().filter(|t| !t.trials.is_empty()).collect();
    let drawn = &tracks[..tracks.len().min(MOST_REPEATS)];
    let all = || drawn.iter().flat_map(|track| &track.trials);
    let longest = all().map(|(_, ns)| *ns).fold(0.0, f64::max);
    if drawn.is_empty() {
        return None;
    }
    let (unit, size) = time_unit(longest);
    let values: Vec<f64> = all().map(|(_, ns)| ns / size).collect();
    let (x, y) = (
        Scale::of(all().map(|(seconds, _)| *seconds), true),
        Scale::fitting(&values),
    );
    let title = format!("Trial after trial: {label}");
    let mut svg = Svg::default();
    let mut top = heading(&mut svg, &title);
    let mut notes = Vec::new();
    let (mut outliers, mut last) = (0, None);
    for track in drawn {
        let frame = Frame::new(top + LINE, 120.0, x.clone(), y.clone());
        let name = format!("repeat {}", track.repeat);
        svg.text((frame.left, top + 12.0), Anchor::Start, SMALL, QUIET, &name);
        frame.y_axis(&mut svg, unit);
        outliers += panel(&mut svg, &frame, track, size, &mut notes);
        top = frame.bottom() + 8.0;
        last = Some(frame);
    }
    let mut frame = last?;
    let lanes = lanes.iter().filter_map(|lane| within(lane, &x));
    for lane in lanes {
        frame = Frame::new(top + LINE, 44.0, x.clone(), lane_scale(&lane));
        let name = format!("{} during repeat {}", lane.name, drawn[0].repeat);
        svg.text((frame.left, top + 12.0), Anchor::Start, SMALL, QUIET, &name);
        frame.y_axis(&mut svg, &lane.unit);
        let kept = min_max(&lane.points, MOST_POINTS);
        let place = |(s, value): &(f64, f64)| (frame.x(*s), frame.y(*value));
        let points: Vec<(f64, f64)> = kept.iter().map(place).collect();
        svg.group("lane", |svg| svg.path(&points, SERIES[2], 1.5, ""));
        top = frame.bottom() + 8.0;
    }
    frame.x_axis(
        &mut svg,
        "seconds since the first measured trial of the repeat",
    );
    if tracks.len() > drawn.len() {
        notes.push(format!(
            "Of {} repeats the first {} are drawn.",
            tracks.len(),
            drawn.len()
        ));
    }
    let about = format!(
        "Latency in {unit}, a panel for each repeat. {} trials, {} of them outliers (dots), which stay in every \
         figure. {}",
        units::count(values.len() as u64),
        units::count(outliers as u64),
        notes.join(" ")
    );
    let name = name_of(&["timeline", label]);
    Some(Figure {
        svg: svg.finish(&name, (WIDTH, frame.bottom() + BELOW), &title, &about),
        name,
        title,
        about: about.trim_end().to_owned(),
    })
}

/// The samples of a lane that lie on the axis of time; none where fewer than two do.
fn within(lane: &Lane, x: &Scale) -> Option<Lane> {
    let inside = |(seconds, _): &&(f64, f64)| x.low <= *seconds && *seconds <= x.high;
    let points: Vec<(f64, f64)> = lane.points.iter().filter(inside).copied().collect();
    (points.len() > 1).then(|| Lane {
        points,
        ..lane.clone()
    })
}

/// Two marks are enough for a lane this low.
fn lane_scale(lane: &Lane) -> Scale {
    let scale = Scale::of(lane.points.iter().map(|(_, value)| *value), false);
    Scale {
        ticks: vec![scale.low, scale.high],
        ..scale
    }
}

/// Draws one repeat and counts its outliers.
fn panel(svg: &mut Svg, frame: &Frame, track: &Track, size: f64, notes: &mut Vec<String>) -> usize {
    let line: Vec<(f64, f64)> = track.trials.iter().map(|(s, ns)| (*s, ns / size)).collect();
    let kept = min_max(&line, MOST_POINTS);
    if kept.len() < line.len() {
        notes.push(format!(
            "Repeat {}: of {} trials the lowest and highest of each stretch are drawn ({} points).",
            track.repeat,
            units::count(line.len() as u64),
            kept.len()
        ));
    }
    let place = |(s, value): &(f64, f64)| (frame.x(*s), frame.y(*value));
    let points: Vec<(f64, f64)> = kept.iter().map(place).collect();
    svg.group("trials", |svg| svg.path(&points, SERIES[0], 1.0, ""));
    let latencies: Vec<f64> = track.trials.iter().map(|(_, ns)| *ns).collect();
    let Some(scale) = outlier::Scale::of(&latencies) else {
        return 0;
    };
    let trials = track.trials.iter().zip(0_u64..);
    let mut far: Vec<_> = trials
        .filter(|((_, ns), _)| scale.is_outlier(*ns))
        .collect();
    let count = far.len();
    far.sort_by(|((_, a), _), ((_, b), _)| {
        let from = |ns: f64| (ns - scale.median).abs();
        from(*b).total_cmp(&from(*a))
    });
    if far.len() > MOST_OUTLIERS {
        far.truncate(MOST_OUTLIERS);
        notes.push(format!(
            "Repeat {}: the {MOST_OUTLIERS} farthest of {count} outliers are marked.",
            track.repeat
        ));
    }
    svg.group("outliers", |svg| {
        for ((seconds, ns), number) in far {
            let about = format!("trial {number}: {}", units::nanoseconds(*ns));
            svg.circle(place(&(*seconds, ns / size)), 3.0, ALARM, Some(&about));
        }
    });
    count
}
