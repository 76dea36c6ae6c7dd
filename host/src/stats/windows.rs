//! A run of many frames seen at its beginning, middle and end: whether it becomes slower as it goes.
//!
//! The rules are those of LingBot-Map's `gct_profile.py` (reference notes, formats 2.2), so that figures
//! can be held against its own. A run may begin with one timed batch of `scale` frames.

use super::{mean, quantile};

/// Trials to each side of a window's centre.
const HALF_WINDOW: usize = 30;

/// Trials to each side of a trace point, and from one to the next.
const HALF_TRACE: usize = 3;
const TRACE_STEP: usize = 100;

/// Blocks that a drift is worked out from.
const BLOCKS: usize = 50;

/// What a series of trials comes to. Times are milliseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Windows {
    /// Frames of the batch at the beginning.
    pub scale_frames: usize,
    /// Time of that batch; none when there is none.
    pub phase1_ms: Option<f64>,
    pub frames: usize,
    pub total_ms: f64,
    pub global_ms: f64,
    /// At 10, 50 and 90 % of the run.
    pub at: [Window; 3],
    /// Means around every hundredth frame, by global index.
    pub trace: Vec<(usize, f64)>,
    /// Theil–Sen slope of the time over the index; none below two frames.
    pub drift_ms_per_1000: Option<f64>,
}

/// A mean around one place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// Index among all frames, those of the batch included.
    pub frame: usize,
    pub ms: f64,
}

/// A rate from a time in milliseconds, 0 where there is no time (upstream's own convention).
pub fn fps(ms: f64) -> f64 {
    if ms > 0.0 { 1000.0 / ms } else { 0.0 }
}

/// Windows of frames timed one by one, after a batch of `scale_frames` timed as one; none without frames.
pub fn windows(frames_ms: &[f64], phase1: Option<(usize, f64)>) -> Option<Windows> {
    let n = frames_ms.len();
    let (scale, phase1_ms) = (phase1.map_or(0, |p| p.0), phase1.map(|p| p.1));
    let total_ms = phase1_ms.unwrap_or(0.0) + frames_ms.iter().sum::<f64>();
    let window = |p: usize| {
        Some(Window {
            frame: scale + p,
            ms: around(frames_ms, p, HALF_WINDOW)?,
        })
    };
    let [low, middle, high] = places(n);
    Some(Windows {
        scale_frames: scale,
        phase1_ms,
        frames: scale + n,
        total_ms,
        global_ms: total_ms / (scale + n) as f64,
        at: [window(low)?, window(middle)?, window(high)?],
        trace: trace(frames_ms, scale),
        drift_ms_per_1000: slope(frames_ms).map(|slope| slope * 1000.0),
    })
}

/// Local indices of the three windows' centres.
fn places(n: usize) -> [usize; 3] {
    [10.max(n / 10), n / 2, n - 1.max(n / 10).min(n)]
}

/// The mean of the trials within `half` of index `p`, clipped to the run.
fn around(frames: &[f64], p: usize, half: usize) -> Option<f64> {
    let from = p.saturating_sub(half);
    let to = (p + half + 1).min(frames.len());
    mean::arithmetic(frames.get(from..to)?)
}

/// Multiples of 100 by global index; the first frame of all, which is cold, is never one.
fn trace(frames: &[f64], scale: usize) -> Vec<(usize, f64)> {
    let start = match (TRACE_STEP - scale % TRACE_STEP) % TRACE_STEP {
        0 => TRACE_STEP,
        start => start,
    };
    let places = (start..frames.len()).step_by(TRACE_STEP);
    let point = |p| Some((scale + p, around(frames, p, HALF_TRACE)?));
    places.filter_map(point).collect()
}

/// The median of the slopes between all pairs of blocks (Theil 1950, Sen 1968), each block standing for the
/// median of its trials at its middle: a few slow trials are no drift.
fn slope(values: &[f64]) -> Option<f64> {
    let blocks = BLOCKS.min(values.len());
    let edge = |block: usize| block * values.len() / blocks;
    let point = |block: usize| {
        let (from, to) = (edge(block), edge(block + 1));
        let middle = (from + to - 1) as f64 / 2.0;
        Some((middle, quantile::of(&values[from..to], 0.5)?))
    };
    let points: Vec<(f64, f64)> = (0..blocks).map(point).collect::<Option<_>>()?;
    let of_pair = |(i, a): (usize, &(f64, f64))| {
        let later = points[i + 1..].iter();
        let slope = |b: &(f64, f64)| (b.1 - a.1) / (b.0 - a.0);
        later.map(slope).collect::<Vec<f64>>()
    };
    let slopes: Vec<f64> = points.iter().enumerate().flat_map(of_pair).collect();
    quantile::of(&slopes, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 500 frames, 8 of them in the batch (formats 2.2 and 8).
    #[test]
    fn places_are_those_of_the_reference() {
        assert_eq!(places(492), [49, 246, 443]);
        assert_eq!(places(24), [10, 12, 22]);
        let found = windows(&[2.0; 492], Some((8, 16.0))).unwrap();
        assert_eq!(found.at.map(|window| window.frame), [57, 254, 451]);
        let trace: Vec<usize> = found.trace.iter().map(|point| point.0).collect();
        assert_eq!(trace, [100, 200, 300, 400]);
        assert_eq!((found.frames, found.total_ms), (500, 1000.0));
        assert_eq!((found.global_ms, fps(found.global_ms)), (2.0, 500.0));
    }

    /// A ramp of 1 ms more each frame: every window's mean is its centre where nothing is clipped.
    #[test]
    fn windows_are_means_of_61_frames_clipped_to_the_run() {
        let ramp: Vec<f64> = (0..492).map(f64::from).collect();
        let found = windows(&ramp, Some((8, 0.0))).unwrap();
        assert_eq!(found.at.map(|window| window.ms), [49.0, 246.0, 443.0]);
        assert_eq!(found.trace[0], (100, 92.0));
        let drift = found.drift_ms_per_1000.unwrap();
        assert!((drift - 1000.0).abs() < 1e-9, "{drift}");
        // 24 frames: 10 ± 30 and 12 ± 30 hold all of them, mean 11.5.
        let short = windows(&ramp[..24], None).unwrap();
        assert_eq!(short.at.map(|window| window.ms), [11.5, 11.5, 11.5]);
        // 100 frames: 10 ± 30 is 0..=40, mean 20; 90 ± 30 is 60..=99, mean 79.5.
        let clipped = windows(&ramp[..100], None).unwrap();
        assert_eq!(clipped.at.map(|window| window.ms), [20.0, 50.0, 79.5]);
    }

    #[test]
    fn a_run_that_slows_down_has_fewer_frames_at_its_end() {
        let slowing: Vec<f64> = (0..300).map(|i| 1.0 + f64::from(i) / 300.0).collect();
        let found = windows(&slowing, None).unwrap();
        assert!(fps(found.at[0].ms) > fps(found.at[2].ms));
        // A few very slow trials change the mean and not the drift.
        let mut hiccups = vec![3.0; 300];
        hiccups[290..].fill(50.0);
        assert_eq!(
            windows(&hiccups, None).unwrap().drift_ms_per_1000,
            Some(0.0)
        );
        let steady = windows(&[3.0; 300], None).unwrap();
        assert_eq!(steady.drift_ms_per_1000, Some(0.0));
    }

    #[test]
    fn without_a_batch_the_trace_begins_at_100() {
        let found = windows(&[1.0; 250], None).unwrap();
        assert_eq!(found.trace, [(100, 1.0), (200, 1.0)]);
        assert_eq!(found.phase1_ms, None);
        let aligned = windows(&[1.0; 250], Some((100, 5.0))).unwrap();
        assert_eq!(aligned.trace.first(), Some(&(200, 1.0)));
    }

    #[test]
    fn no_frame_has_no_window_and_one_has_no_slope() {
        assert_eq!(windows(&[], None), None);
        let one = windows(&[4.0], None);
        assert!(one.is_none_or(|one| one.drift_ms_per_1000.is_none()));
        assert_eq!(fps(0.0), 0.0);
    }
}
