//! The load of a Jetson's memory controller from its activity monitor.
//!
//! The unit of that figure is not documented and differs between releases of the vendor's software, so it is
//! learned on each board (`contention/emc`). Activity over clock times one factor is the share.

use serde::{Deserialize, Serialize};

use crate::stats::mean;
use crate::store::rows::DeviceRow;
use crate::view::RepeatView;

const ACTIVITY: &str = "emc.activity";
const CLOCK: &str = "emc.freq";
const TOLD: &str = "tegrastats.emc.load";

/// A factor and how it was come by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EmcScale {
    /// From activity over clock in Hz to a share of the time.
    pub scale: f64,
    /// How much of what the tool told it explains.
    pub r2: f64,
    /// How much of the activity the bytes of the stressors explain; none where those are not known.
    pub bytes_r2: Option<f64>,
    pub repeats: u32,
    pub run: String,
}

/// What decides how a board counts: the vendor's release and the kernel.
pub fn release(device: &DeviceRow) -> String {
    let said = |name: &str| {
        let mut facts = device.facts.iter().filter(|fact| fact.name == name);
        facts.next().and_then(|fact| fact.value.clone())
    };
    let vendor = said("vendor_release").unwrap_or_else(|| "unknown release".into());
    let kernel = said("kernel_release").unwrap_or_else(|| "unknown".into());
    format!("{vendor}; Linux {kernel}")
}

/// Share of the time in which the memory controller was busy inside the windows, and what tells it: the
/// activity monitor where its unit was learned, else the vendor's tool.
pub fn load(repeats: &[&RepeatView], scale: Option<&EmcScale>) -> Option<(f64, String)> {
    if let Some(scale) = scale {
        let ratios: Vec<f64> = repeats.iter().filter_map(|repeat| ratio(repeat)).collect();
        if let Some(ratio) = mean::arithmetic(&ratios) {
            let text = format!(
                "{ACTIVITY} over {CLOCK}, by run {} (r2 {:.3} of {} repeats)",
                scale.run, scale.r2, scale.repeats
            );
            return Some((ratio * scale.scale, text));
        }
    }
    let told: Vec<f64> = repeats.iter().filter_map(|repeat| told(repeat)).collect();
    Some((mean::arithmetic(&told)?, TOLD.into()))
}

/// The share that the vendor's tool told.
pub(crate) fn told(repeat: &RepeatView) -> Option<f64> {
    Some(mean_of(repeat, TOLD)? / 1e6)
}

pub(crate) fn activity(repeat: &RepeatView) -> Option<f64> {
    mean_of(repeat, ACTIVITY)
}

/// Activity over clock.
pub(crate) fn ratio(repeat: &RepeatView) -> Option<f64> {
    let clock = mean_of(repeat, CLOCK).filter(|hz| *hz > 0.0)?;
    Some(activity(repeat)? / clock)
}

fn mean_of(repeat: &RepeatView, name: &str) -> Option<f64> {
    let mut digests = repeat.telemetry.iter();
    let digest = digests.find(|digest| digest.channel.name == name)?;
    digest.figures.map(|figures| figures.mean)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::findings::tests::before_the_end;
    use crate::store::sample::{MS, repeat, watched};
    use crate::summary::summarise;
    use crate::summary::tests::view_of;
    use crate::view::CaseView;

    /// Activity 500 000 at a clock of 1 GHz; the tool says 40 %.
    pub(crate) fn view() -> CaseView {
        let mut records = repeat(&[20 * MS; 100]);
        let held = |value: i64| [(0, Some(value)), (1000, Some(value)), (2000, Some(value))];
        let channels = [
            (0, ACTIVITY, "raw", 500_000),
            (1, CLOCK, "hz", 1_000_000_000),
            (2, TOLD, "ppm", 400_000),
        ];
        for (id, name, unit, value) in channels {
            for record in watched(id, name, unit, &held(value)) {
                before_the_end(&mut records, record);
            }
        }
        view_of(&records)
    }

    #[test]
    fn the_tool_tells_the_load_until_a_unit_is_known() {
        let mut view = view();
        let board = |view: &CaseView| {
            let (share, by) = summarise(view).board.emc.unwrap();
            ((share * 1e6).round(), by)
        };
        assert_eq!(board(&view), (400_000.0, TOLD.to_owned()));
        view.emc_scale = Some(EmcScale {
            scale: 600.0,
            r2: 0.99,
            bytes_r2: None,
            repeats: 40,
            run: "r7".into(),
        });
        let (share, by) = board(&view);
        assert_eq!(share, 300_000.0);
        assert!(by.contains("r7") && by.contains("0.990"), "{by}");
    }
}
