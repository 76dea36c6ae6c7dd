//! What a run teaches of a Jetson's memory controller: its load went through memory at several levels while
//! the vendor's own tool told how busy that was.

use super::achieved::bytes_per_second;
use crate::telemetry::emc::{self, EmcScale};
use crate::view::{CaseView, RepeatView};

/// Fewer repeats, or loads closer together than this share, say nothing of a line.
const FEWEST: usize = 8;
const LEAST_SPAN: f64 = 0.2;

/// A factor that explains less of what was told is not the unit.
const LEAST_R2: f64 = 0.95;

/// One repeat's window.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Seen {
    /// Activity over clock.
    ratio: f64,
    /// What the tool told, as a share.
    load: f64,
    /// Activity, and bytes a second that stressors moved.
    moved: Option<(f64, f64)>,
}

/// What a run teaches; none where its board was not watched so, else why it teaches nothing.
pub fn learn(run: &str, views: &[CaseView]) -> Option<Result<EmcScale, String>> {
    let repeats = views.iter().flat_map(|view| view.counting());
    let seen: Vec<Seen> = repeats.filter_map(seen).collect();
    (!seen.is_empty()).then(|| fit(run, &seen))
}

fn seen(repeat: &RepeatView) -> Option<Seen> {
    let activity = emc::activity(repeat)?;
    Some(Seen {
        ratio: emc::ratio(repeat)?,
        load: emc::told(repeat)?,
        moved: bytes_per_second(&repeat.row.stress).map(|bytes| (activity, bytes)),
    })
}

fn fit(run: &str, seen: &[Seen]) -> Result<EmcScale, String> {
    if seen.len() < FEWEST {
        return Err(format!(
            "{} repeats told of it, {FEWEST} are needed",
            seen.len()
        ));
    }
    let loads = || seen.iter().map(|one| one.load);
    let span = loads().fold(f64::MIN, f64::max) - loads().fold(f64::MAX, f64::min);
    if span < LEAST_SPAN {
        let (span, least) = (span * 100.0, LEAST_SPAN * 100.0);
        return Err(format!(
            "loads were {span:.0} points apart, {least:.0} are needed"
        ));
    }
    let (mut products, mut squares) = (0.0, 0.0);
    for one in seen {
        products += one.ratio * one.load;
        squares += one.ratio * one.ratio;
    }
    let scale = products / squares;
    let average = loads().sum::<f64>() / seen.len() as f64;
    let rest: f64 = seen
        .iter()
        .map(|one| (one.load - scale * one.ratio).powi(2))
        .sum();
    let all: f64 = loads().map(|load| (load - average).powi(2)).sum();
    let r2 = 1.0 - rest / all;
    // Not a number is no unit either.
    if !(r2 >= LEAST_R2 && scale > 0.0) {
        return Err(format!(
            "no factor makes a share of its activity: the best explains {:.0} % of what tegrastats told",
            r2.max(0.0) * 100.0
        ));
    }
    let moved: Option<Vec<(f64, f64)>> = seen.iter().map(|one| one.moved).collect();
    Ok(EmcScale {
        scale,
        r2,
        bytes_r2: moved.and_then(|pairs| correlation(&pairs)).map(|r| r * r),
        repeats: seen.len() as u32,
        run: run.to_owned(),
    })
}

/// Pearson's; none where one of the two stays the same.
fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let n = pairs.len() as f64;
    let (sum_x, sum_y) = pairs
        .iter()
        .fold((0.0, 0.0), |(x, y), pair| (x + pair.0, y + pair.1));
    let (mean_x, mean_y) = (sum_x / n, sum_y / n);
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in pairs {
        let (x, y) = (x - mean_x, y - mean_y);
        xy += x * y;
        xx += x * x;
        yy += y * y;
    }
    let r = xy / (xx * yy).sqrt();
    r.is_finite().then_some(r)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loads of 0, 10 ... 90 %, of a monitor that counts thousands of active cycles a second of a clock of
    /// 2 GHz, and as many GB/s of a load.
    fn line(noise: f64) -> Vec<Seen> {
        let one = |i: i32| {
            let load = f64::from(i) / 10.0;
            let wrong = if i % 2 == 0 { noise } else { -noise };
            Seen {
                ratio: load * 1e-3,
                load: load + wrong,
                moved: Some((load * 2e6, load * 10e9)),
            }
        };
        (0..10).map(one).collect()
    }

    #[test]
    fn a_unit_is_found_with_how_well_it_explains() {
        let found = fit("r1", &line(0.0)).unwrap();
        assert!((found.scale - 1000.0).abs() < 1e-9, "{}", found.scale);
        assert!((found.r2 - 1.0).abs() < 1e-12);
        assert!((found.bytes_r2.unwrap() - 1.0).abs() < 1e-12);
        assert_eq!((found.repeats, found.run.as_str()), (10, "r1"));
        // 0.825 about the mean, against ten times 0.02 squared less what the slope takes of it.
        let rough = fit("r1", &line(0.02)).unwrap();
        assert!(rough.r2 > 0.99 && rough.r2 < 0.9999, "{}", rough.r2);
    }

    #[test]
    fn what_is_no_line_is_no_unit() {
        let seen = line(0.0);
        assert!(fit("r", &seen[..7]).unwrap_err().contains("7 repeats"));
        let near: Vec<Seen> = seen
            .iter()
            .cycle()
            .take(3)
            .cycle()
            .take(9)
            .copied()
            .collect();
        let narrow: Vec<Seen> = near
            .iter()
            .map(|one| Seen {
                load: one.load / 2.0,
                ..*one
            })
            .collect();
        assert!(fit("r", &narrow).unwrap_err().contains("points apart"));
        // As one public reader's rule gave on every Orin.
        let dead: Vec<Seen> = seen.iter().map(|one| Seen { ratio: 0.0, ..*one }).collect();
        assert!(fit("r", &dead).unwrap_err().contains("no factor"));
        let constant: Vec<Seen> = seen.iter().map(|one| Seen { ratio: 0.5, ..*one }).collect();
        assert!(fit("r", &constant).is_err());
        let without: Vec<Seen> = seen
            .iter()
            .map(|one| Seen {
                moved: None,
                ..*one
            })
            .collect();
        assert_eq!(fit("r", &without).unwrap().bytes_r2, None);
    }

    #[test]
    fn one_repeat_teaches_nothing_and_says_so() {
        let view = emc::tests::view();
        let why = learn("r1", &[view]).unwrap().unwrap_err();
        assert_eq!(why, "1 repeats told of it, 8 are needed");
        assert!(learn("r1", &[]).is_none());
    }
}
