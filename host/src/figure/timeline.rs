//! Trial after trial as time goes by, one panel for each repeat, with outliers marked.

use super::chart::{BELOW, Frame, LINE, SMALL, WIDTH, heading};
use super::decimate::{Thin, min_max};
use super::palette::{ALARM, QUIET, SERIES};
use super::scale::{Scale, time_unit};
use super::svg::{Anchor, Svg};
use super::{Figure, name_of};
use crate::stats::outlier;
use crate::ui::units;

/// Panels of one figure.
const MOST_REPEATS: usize = 5;
/// Two for each dot of a screen are enough.
const MOST_POINTS: usize = 1400;
const MOST_OUTLIERS: usize = 200;

/// Measured trials of one repeat, as many of them as are drawn.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Track {
    pub repeat: u32,
    pub trials: usize,
    /// Seconds since the first of them began, and nanoseconds it took.
    line: Vec<(f64, f64)>,
    outliers: usize,
    /// The farthest of them.
    far: Vec<Far>,
    slowest: f64,
}

/// A trial far from the rest.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Far {
    number: usize,
    at: (f64, f64),
}

/// Takes in the trials of a repeat one after the other, however many there are.
#[derive(Debug, Clone)]
pub struct Tracker {
    track: Track,
    thin: Thin,
    scale: Option<outlier::Scale>,
}

impl Tracker {
    /// `count` trials are to come; `scale` says which of them are outliers.
    pub fn new(repeat: u32, count: usize, scale: Option<outlier::Scale>) -> Self {
        Self {
            track: Track {
                repeat,
                ..Track::default()
            },
            thin: Thin::new(count, MOST_POINTS),
            scale,
        }
    }

    /// A trial: seconds since the first one began, and nanoseconds it took.
    pub fn push(&mut self, seconds: f64, ns: f64) {
        let track = &mut self.track;
        let number = track.trials;
        track.trials += 1;
        track.slowest = track.slowest.max(ns);
        self.thin.push((seconds, ns));
        if self.scale.is_some_and(|scale| scale.is_outlier(ns)) {
            track.outliers += 1;
            let at = (seconds, ns);
            track.far.push(Far { number, at });
            if track.far.len() > 2 * MOST_OUTLIERS {
                self.keep_farthest();
            }
        }
    }

    fn keep_farthest(&mut self) {
        let median = self.scale.map_or(0.0, |scale| scale.median);
        let from = |far: &Far| (far.at.1 - median).abs();
        let far = &mut self.track.far;
        far.sort_by(|a, b| from(b).total_cmp(&from(a)));
        far.truncate(MOST_OUTLIERS);
    }

    pub fn finish(mut self) -> Track {
        self.keep_farthest();
        Track {
            line: self.thin.finish(),
            ..self.track
        }
    }
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
    let tracks: Vec<&Track> = tracks.iter().filter(|t| t.trials > 0).collect();
    let drawn = &tracks[..tracks.len().min(MOST_REPEATS)];
    let all = || drawn.iter().flat_map(|track| &track.line);
    let longest = drawn.iter().map(|track| track.slowest).fold(0.0, f64::max);
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
    let mut last = None;
    for track in drawn {
        let frame = Frame::new(top + LINE, 120.0, x.clone(), y.clone());
        let name = format!("repeat {}", track.repeat);
        svg.text((frame.left, top + 12.0), Anchor::Start, SMALL, QUIET, &name);
        frame.y_axis(&mut svg, unit);
        panel(&mut svg, &frame, track, size, &mut notes);
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
        units::count(drawn.iter().map(|track| track.trials as u64).sum::<u64>()),
        units::count(drawn.iter().map(|track| track.outliers as u64).sum::<u64>()),
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

/// Draws one repeat.
fn panel(svg: &mut Svg, frame: &Frame, track: &Track, size: f64, notes: &mut Vec<String>) {
    if track.line.len() < track.trials {
        notes.push(format!(
            "Repeat {}: of {} trials the lowest and highest of each stretch are drawn ({} points).",
            track.repeat,
            units::count(track.trials as u64),
            track.line.len()
        ));
    }
    let place = |(s, ns): &(f64, f64)| (frame.x(*s), frame.y(ns / size));
    let points: Vec<(f64, f64)> = track.line.iter().map(place).collect();
    svg.group("trials", |svg| svg.path(&points, SERIES[0], 1.0, ""));
    if track.far.len() < track.outliers {
        notes.push(format!(
            "Repeat {}: the {} farthest of {} outliers are marked.",
            track.repeat,
            track.far.len(),
            units::count(track.outliers as u64)
        ));
    }
    svg.group("outliers", |svg| {
        for far in &track.far {
            let about = format!("trial {}: {}", far.number, units::nanoseconds(far.at.1));
            svg.circle(place(&far.at), 3.0, ALARM, Some(&about));
        }
    });
}
