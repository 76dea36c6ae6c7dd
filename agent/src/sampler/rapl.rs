//! Energy that x86 processors count.

use edgedyno_shared::telemetry::{ChannelKind, Fidelity};
use edgedyno_shared::units::Nanos;

use super::board::{Board, Names};
use super::offer::{Found, Offer, Tier};
use super::source::Single;
use super::watch::Readings;
use super::{Sampler, Source};

const FOLDER: &str = "sys/class/powercap";

const ENERGY: Offer = Offer {
    name: "power.rapl.DOMAIN.energy",
    unit: "microjoule",
    kind: ChannelKind::Counter,
    fidelity: Fidelity::Measured,
    native_period: Some(Nanos::from_millis(1)),
    source: "/sys/class/powercap/intel-rapl:*/energy_uj",
    rights: "root, since 2020",
    boards: "Intel, and AMD under the same name",
    meaning: "Energy of a package, of its cores or of its memory. The counter's wraps are undone here; a span longer than a whole turn of it would be missed.",
};

pub(super) struct Rapl;

impl Sampler for Rapl {
    fn name(&self) -> &'static str {
        "rapl"
    }

    fn offers(&self) -> &'static [Offer] {
        &[ENERGY]
    }

    fn find(&self, board: &Board) -> Vec<Found> {
        let Ok(domains) = board.entries(FOLDER, "intel-rapl:") else {
            return vec![ENERGY.absent(format!("/{FOLDER} has no energy counter"))];
        };
        let mut names = Names::default();
        let found = domains.iter().map(|domain| {
            let folder = format!("{FOLDER}/{domain}");
            let name = board.line(&format!("{folder}/name"));
            let name = names.of(&name.unwrap_or_else(|| domain.clone()));
            let path = format!("{folder}/energy_uj");
            let range = board.line(&format!("{folder}/max_energy_range_uj"));
            let spec = ENERGY.spec(format!("power.rapl.{name}.energy"), format!("/{path}"));
            let counter = Counter {
                file: Single::integer(board, &path, 1),
                range: range.and_then(|range| range.parse().ok()),
                last: None,
                turns: 0,
            };
            Found::new(Tier::Normal, vec![spec], counter)
        });
        found.collect()
    }
}

/// A counter that begins again at 0 behind its range.
struct Counter {
    file: Single,
    /// The largest value; none where the board does not say, and then a step back stays one.
    range: Option<i64>,
    last: Option<i64>,
    turns: i64,
}

impl Counter {
    fn unwrapped(&mut self, value: i64) -> i64 {
        if let (Some(range), Some(last)) = (self.range, self.last)
            && value < last
        {
            self.turns = self.turns.saturating_add(range);
        }
        self.last = Some(value);
        value.saturating_add(self.turns)
    }
}

impl Source for Counter {
    fn read(&mut self, out: &mut Readings<'_>) {
        let value = out.timed(|| self.file.value());
        let value = value.map(|value| self.unwrapped(value));
        out.put(0, value);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sampler::testing::Tree;

    const PACKAGE: &str = "sys/class/powercap/intel-rapl:0";

    #[test]
    fn a_wrap_is_undone() {
        let energy = format!("{PACKAGE}/energy_uj");
        let tree = Tree::with(&[
            (&format!("{PACKAGE}/name"), "package-0\n"),
            (&format!("{PACKAGE}/max_energy_range_uj"), "262143328850\n"),
            (&energy, "262143328800\n"),
        ]);
        let mut watch = tree.watch(&Rapl);
        tree.set(&energy, "150\n");
        let readings = watch.again();
        assert_eq!(readings["power.rapl.package_0.energy"], Ok(262_143_329_000));
    }

    proptest! {
        #[test]
        fn an_unwrapped_counter_never_falls(range in 1_i64..1_000_000, steps: Vec<u16>) {
            let board = Tree::with(&[]).board();
            let file = Single::integer(&board, "x", 1);
            let mut counter = Counter { file, range: Some(range), last: None, turns: 0 };
            let mut true_value = 0_i64;
            let mut before = 0;
            for step in steps {
                true_value += i64::from(step) % range;
                let shown = counter.unwrapped(true_value % range);
                prop_assert!(shown >= before);
                prop_assert_eq!(shown, true_value);
                before = shown;
            }
        }
    }
}
