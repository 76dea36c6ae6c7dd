//! Telemetry as counters: gauges as they were read, counters as what they grew in a second, those first that
//! were most unlike themselves while the slowest trial ran.

use super::trials::Far;
use super::{Content, Track};
use crate::stats::quantile;
use crate::store::rows::{ChannelRow, SamplesRow};
use crate::telemetry::series::{Series, series};
use crate::ui::units;

/// Samples this far around a trial tell of it: one period of the normal tier and a half.
const AROUND_NS: i64 = 150_000_000;

/// The samples of a channel that were read well; none where fewer than one was.
pub(super) fn track(channel: &ChannelRow, samples: &SamplesRow) -> Option<Track> {
    let Series { unit, readings } = series(channel, samples);
    // A value of a counter holds from the first of its two reads on.
    let points: Vec<(i64, f64)> = readings.iter().map(|r| (r.from_ns, r.value)).collect();
    (!points.is_empty()).then(|| Track {
        name: channel.name.clone(),
        shelf: Some(shelf(&channel.name)),
        content: Content::Counter { unit, points },
    })
}

/// The part of the board that a channel is about: `cpu 3`, or the first part of its name.
fn shelf(name: &str) -> String {
    let mut parts = name.split('.');
    let first = parts.next().unwrap_or(name);
    match (first, parts.next()) {
        ("cpu", Some(second)) if second.parse::<u16>().is_ok() => format!("CPU {second}"),
        ("cpu", _) => "CPU clocks and queue".into(),
        ("worker", _) => "the worker".into(),
        ("mem" | "psi", _) => "memory and pressure".into(),
        (other, _) => other.to_owned(),
    }
}

/// Puts first what was most unlike itself around a trial: shelf by shelf, so that what belongs together stays
/// together.
pub(super) fn sort(tracks: &mut [Track], slowest: Option<Far>) {
    let Some(slowest) = slowest else { return };
    let strength = |track: &Track| match &track.content {
        Content::Counter { points, .. } => unlike(points, slowest),
        _ => 0.0,
    };
    let mut shelves: Vec<(Option<String>, f64)> = Vec::new();
    for track in tracks.iter() {
        let strength = strength(track);
        match shelves.iter_mut().find(|(shelf, _)| *shelf == track.shelf) {
            Some((_, most)) => *most = most.max(strength),
            None => shelves.push((track.shelf.clone(), strength)),
        }
    }
    shelves.sort_by(|a, b| b.1.total_cmp(&a.1));
    let place = |track: &Track| shelves.iter().position(|(shelf, _)| *shelf == track.shelf);
    // Stable: what is alike stays in the order of the channels.
    tracks.sort_by(|a, b| {
        let of = |track: &Track| (place(track), -strength(track));
        let ((place_a, a), (place_b, b)) = (of(a), of(b));
        place_a.cmp(&place_b).then(a.total_cmp(&b))
    });
}

/// How far the value of that time is from the usual one, in widths of what is usual; 0 where it never moves.
fn unlike(points: &[(i64, f64)], trial: Far) -> f64 {
    let values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
    let share = |p: f64| quantile::of(&values, p);
    let (Some(low), Some(middle), Some(high)) = (share(0.1), share(0.5), share(0.9)) else {
        return 0.0;
    };
    let then = around(points, trial)
        .map(|value| (value - middle).abs())
        .fold(0.0, f64::max);
    let width = (high - low).max(middle.abs() * 0.01).max(f64::MIN_POSITIVE);
    (then / width).min(1e6)
}

/// Values from the last read before a trial on, until shortly after it.
fn around(points: &[(i64, f64)], trial: Far) -> impl Iterator<Item = f64> + '_ {
    let until = trial.end_ns + AROUND_NS;
    let first = points
        .partition_point(|(at, _)| *at <= trial.start_ns)
        .saturating_sub(1);
    let near = move |(at, _): &&(i64, f64)| trial.start_ns - AROUND_NS <= *at && *at <= until;
    points[first..]
        .iter()
        .take_while(move |(at, _)| *at <= until)
        .filter(near)
        .map(|(_, v)| *v)
}

/// The counters that were unlike themselves during a trial, for its notes: name, value then and usual value.
pub(super) fn notes(tracks: &[Track], trial: Far, most: usize) -> Vec<(&'static str, String)> {
    let told = tracks.iter().filter_map(|track| {
        let Content::Counter { unit, points } = &track.content else {
            return None;
        };
        let strength = unlike(points, trial);
        let values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
        let middle = quantile::of(&values, 0.5)?;
        let then = around(points, trial)
            .max_by(|a, b| (a - middle).abs().total_cmp(&(b - middle).abs()))?;
        let words = format!(
            "{}: {} {unit}, usually {}",
            track.name,
            units::figure(then),
            units::figure(middle)
        );
        (strength >= 1.0).then_some((strength, words))
    });
    let mut told: Vec<(f64, String)> = told.collect();
    told.sort_by(|a, b| b.0.total_cmp(&a.0));
    told.into_iter()
        .take(most)
        .map(|(_, words)| ("meanwhile", words))
        .collect()
}
