//! Which channels stand for the power of a board: its input, else all parts of it that can be read.

use super::board::find;
use crate::stats::interval::half_width;
use crate::stats::mean;
use crate::store::rows::FidelityRow;
use crate::telemetry::Digest;
use crate::view::RepeatView;

/// Rails that are the whole board, the best first.
const WHOLE: [&str; 6] = [
    "rail.vdd_in.power",
    "rail.vin.power",
    "rail.pom_5v_in.power",
    "power.rapl.psys.energy",
    "tegrastats.vdd_in.power",
    "tegrastats.pom_5v_in.power",
];

/// What is summed where none of them is there, the best first. No two of them may be mixed: rails of a
/// Jetson have its GPU in them, and tegrastats tells the same rails.
const FAMILIES: [fn(&str) -> bool; 3] = [
    |name| name.starts_with("rail.") && name.ends_with(".power"),
    |name| name.starts_with("tegrastats.") && name.ends_with(".power"),
    is_of_computer,
];

/// Processor packages, memory, which is not in them, and cards of their own.
fn is_of_computer(name: &str) -> bool {
    let rapl = name.strip_prefix("power.rapl.");
    let is_rapl = rapl.is_some_and(|domain| {
        (domain.starts_with("package") || domain.starts_with("dram")) && domain.ends_with(".energy")
    });
    let is_card = [".energy", ".power"].iter().any(|end| name.ends_with(end));
    is_rapl || (name.starts_with("nvml.") && is_card)
}

/// Channels whose power is added up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rails {
    pub(super) channels: Vec<String>,
    /// Those that belong to them and never gave a value.
    unread: Vec<String>,
}

impl Rails {
    pub(super) fn of(channels: &[Digest]) -> Option<Self> {
        let is_read = |name: &&&str| {
            let digest = channels.iter().find(|d| d.channel.name == **name);
            digest.is_some_and(|digest| digest.all_good > 0)
        };
        if let Some(whole) = WHOLE.iter().find(is_read) {
            return Some(Self {
                channels: vec![(*whole).into()],
                unread: Vec::new(),
            });
        }
        FAMILIES.iter().find_map(|is| Self::sum(channels, is))
    }

    /// All channels of a family; none where none of them can be read.
    fn sum(channels: &[Digest], is: impl Fn(&str) -> bool) -> Option<Self> {
        let all = channels.iter().filter(|d| is(&d.channel.name));
        let all = all.filter(|digest| !digest.is_of_nothing());
        let (read, unread): (Vec<&Digest>, Vec<&Digest>) = all.partition(|d| d.all_good > 0);
        let names = |of: &[&Digest]| -> Vec<String> {
            of.iter()
                .map(|digest| digest.channel.name.clone())
                .collect()
        };
        let (read, unread) = (names(&read), names(&unread));
        // A card that counts its energy needs no gauge of its power, and the other way round.
        let has = |name: &str, kind: &str| {
            let card = name.strip_prefix("nvml.").and_then(|n| n.split_once('.'));
            let other = card.map(|(number, _)| format!("nvml.{number}.{kind}"));
            other.is_some_and(|other| other != name && read.contains(&other))
        };
        let counted = read.iter().filter(|name| !has(name, "energy"));
        let missing = unread
            .iter()
            .filter(|name| !has(name, "energy") && !has(name, "power"));
        let mut out = Self {
            channels: counted.cloned().collect(),
            unread: missing.cloned().collect(),
        };
        out.channels.sort_unstable();
        out.unread.sort_unstable();
        (!out.channels.is_empty()).then_some(out)
    }

    /// What it is called: one channel, or what the sum holds and lacks.
    pub(super) fn name(&self) -> String {
        let lacks = match self.unread.is_empty() {
            true => String::new(),
            false => format!(" (not read: {})", self.unread.join(", ")),
        };
        match self.channels.as_slice() {
            [only] => format!("{only}{lacks}"),
            all => format!("sum of {}{lacks}", all.join(", ")),
        }
    }

    /// Mean power of a repeat's window; none where one of the channels is not known.
    pub(super) fn watts(&self, repeat: &RepeatView) -> Option<f64> {
        self.sum_of(repeat, |digest| match digest.is_counter() {
            true => digest.per_second(),
            false => digest.mean(),
        })
    }

    /// The same of the idle board before it.
    pub(super) fn idle_watts(&self, repeat: &RepeatView) -> Option<f64> {
        self.sum_of(repeat, |digest| mean::arithmetic(&digest.idle_parts))
    }

    fn sum_of(&self, repeat: &RepeatView, of: fn(&Digest) -> Option<f64>) -> Option<f64> {
        let each = self.digests(repeat)?.into_iter().map(of);
        Some(each.sum::<Option<f64>>()? / 1e6)
    }

    /// Half the width of the interval of the mean of parts, in microwatts. Parts that lie side by side are
    /// added up; where channels have other numbers of them, widths are, which is never too narrow.
    pub(super) fn half_width(
        &self,
        repeat: &RepeatView,
        level: f64,
        parts: fn(&Digest) -> &Vec<f64>,
    ) -> Option<f64> {
        let digests = self.digests(repeat)?;
        let parts: Vec<&Vec<f64>> = digests.into_iter().map(parts).collect();
        let first = parts.first()?;
        if parts.iter().any(|other| other.len() != first.len()) {
            let widths = parts.iter().map(|parts| half_width(parts, level));
            return widths.sum();
        }
        let summed = |at: usize| parts.iter().map(|parts| parts[at]).sum::<f64>();
        let summed: Vec<f64> = (0..first.len()).map(summed).collect();
        half_width(&summed, level)
    }

    /// The longest of all; none where one of them is not known.
    pub(super) fn native_period_ns(&self, repeat: &RepeatView) -> Option<i64> {
        let periods = self.digests(repeat)?.into_iter();
        let periods = periods.map(|digest| digest.channel.native_period_ns);
        periods.collect::<Option<Vec<i64>>>()?.into_iter().max()
    }

    /// A sum is derived from what was measured.
    pub(super) fn fidelity(&self, repeat: &RepeatView) -> Option<FidelityRow> {
        match self.digests(repeat)?.as_slice() {
            [only] => Some(only.channel.fidelity),
            _ => Some(FidelityRow::Derived),
        }
    }

    fn digests<'a>(&self, repeat: &'a RepeatView) -> Option<Vec<&'a Digest>> {
        let names = self.channels.iter();
        names.map(|name| find(repeat, name)).collect()
    }
}
