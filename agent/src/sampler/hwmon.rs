//! Sensors of the board's monitoring chips: temperatures, voltages, currents, power, energy, fans, alarms.

use edgedyno_shared::telemetry::{ChannelKind, Fidelity};

use super::board::{Board, Names, plain};
use super::fault::Fault;
use super::offer::{Found, Offer, Tier};
use super::source::Single;
use super::watch::Readings;
use super::{Sampler, Source, text};

const FOLDER: &str = "sys/class/hwmon";
const CONVERTERS: &str = "sys/bus/iio/devices";

const TEMPERATURE: Offer = Offer {
    name: "hwmon.CHIP.LABEL.temp",
    unit: "millicelsius",
    kind: ChannelKind::Gauge,
    fidelity: Fidelity::Measured,
    native_period: None,
    source: "/sys/class/hwmon/hwmonN/tempK_input",
    rights: "any user",
    boards: "boards with monitoring chips",
    meaning: "Named by chip and label, since numbers change between boots. Chips on a bus take up to 2 ms a value. A sensor that is switched off is `busy` until it is on.",
};

const VOLTAGE: Offer = Offer {
    name: "hwmon.CHIP.LABEL.voltage",
    unit: "microvolt",
    source: "/sys/class/hwmon/hwmonN/inK_input",
    meaning: "Voltage of a rail.",
    ..TEMPERATURE
};

const CURRENT: Offer = Offer {
    name: "hwmon.CHIP.LABEL.current",
    unit: "microampere",
    source: "/sys/class/hwmon/hwmonN/currK_input",
    meaning: "Current through a rail.",
    ..TEMPERATURE
};

const POWER: Offer = Offer {
    name: "hwmon.CHIP.LABEL.power",
    unit: "microwatt",
    source: "/sys/class/hwmon/hwmonN/powerK_input",
    meaning: "Power of a rail, as the chip says.",
    ..TEMPERATURE
};

const ENERGY: Offer = Offer {
    name: "hwmon.CHIP.LABEL.energy",
    unit: "microjoule",
    kind: ChannelKind::Counter,
    source: "/sys/class/hwmon/hwmonN/energyK_input",
    meaning: "Energy since the chip started.",
    ..TEMPERATURE
};

const FAN: Offer = Offer {
    name: "hwmon.CHIP.LABEL.fan",
    unit: "rpm",
    source: "/sys/class/hwmon/hwmonN/fanK_input",
    meaning: "Turns of a fan in a minute.",
    ..TEMPERATURE
};

const ALARM: Offer = Offer {
    name: "hwmon.CHIP.LABEL.alarm_WHICH",
    unit: "flag",
    kind: ChannelKind::State,
    source: "/sys/class/hwmon/hwmonN/*_alarm",
    meaning: "1 while a limit of the chip is passed.",
    ..TEMPERATURE
};

const OVER_CURRENT: Offer = Offer {
    name: "power.over_current.K",
    unit: "count",
    kind: ChannelKind::Counter,
    source: "/sys/class/hwmon/hwmonN/ocK_event_cnt of soctherm_oc",
    boards: "Jetson Orin",
    meaning: "Times that the board was slowed since a rail gave too little (1: under-voltage, 2: average, 3: instant over-current).",
    ..TEMPERATURE
};

const RAIL: Offer = Offer {
    name: "rail.LABEL.power",
    unit: "microwatt",
    fidelity: Fidelity::Derived,
    source: "inK_input times currK_input of an INA chip; on JetPack 4 in_voltageK_input times in_currentK_input of /sys/bus/iio/devices/*",
    boards: "Jetson, and boards with INA chips",
    meaning: "Voltage times current, read one after the other. The chip averages over tens of ms. A sum over rails lacks what the carrier board loses; VDD_IN and the like are the whole.",
    ..TEMPERATURE
};

/// Kinds of sensors: begin of the file's name, offer, last part of the channel's name, scale.
const KINDS: [(&str, Offer, &str, i64); 6] = [
    ("temp", TEMPERATURE, "temp", 1),
    ("in", VOLTAGE, "voltage", 1_000),
    ("curr", CURRENT, "current", 1_000),
    ("power", POWER, "power", 1),
    ("energy", ENERGY, "energy", 1),
    ("fan", FAN, "fan", 1),
];

/// A sum of shunts that no rail belongs to (channel 7 of an INA3221).
const NO_RAIL: &str = "sum of shunt voltages";

pub(super) struct Hwmon;

impl Sampler for Hwmon {
    fn name(&self) -> &'static str {
        "hwmon"
    }

    fn offers(&self) -> &'static [Offer] {
        &[
            TEMPERATURE,
            VOLTAGE,
            CURRENT,
            POWER,
            ENERGY,
            FAN,
            ALARM,
            OVER_CURRENT,
            RAIL,
        ]
    }

    fn find(&self, board: &Board) -> Vec<Found> {
        let mut names = Names::default();
        let mut rails = Names::default();
        let mut found = iio_rails(board, &mut rails);
        for chip in board.entries(FOLDER, "hwmon").unwrap_or_default() {
            let folder = format!("{FOLDER}/{chip}");
            let kind = board.line(&format!("{folder}/name")).unwrap_or(chip);
            let name = names.of(&kind);
            let files = board.files.list(&folder).unwrap_or_default();
            let chip = Chip {
                board,
                folder,
                name,
                files,
            };
            found.extend(chip.sensors());
            if kind.starts_with("ina") {
                found.extend(chip.rails(&mut rails));
            }
        }
        if found.is_empty() {
            found.push(TEMPERATURE.absent(format!("/{FOLDER} has no chips")));
        }
        found
    }
}

/// Rails of INA3221 chips as JetPack 4 shows them: not by hwmon, but as converters with names for their
/// channels, which are counted from 0.
fn iio_rails(board: &Board, names: &mut Names) -> Vec<Found> {
    let mut found = Vec::new();
    for device in board.entries(CONVERTERS, "iio:device").unwrap_or_default() {
        for channel in 0..3 {
            let path = |file: &str| format!("{CONVERTERS}/{device}/{file}");
            let label = board.line(&path(&format!("rail_name_{channel}")));
            if let Some(label) = label.filter(|label| is_rail(label)) {
                let volts = path(&format!("in_voltage{channel}_input"));
                let amperes = path(&format!("in_current{channel}_input"));
                found.push(rail(board, names, &label, &volts, &amperes));
            }
        }
    }
    found
}

fn is_rail(label: &str) -> bool {
    !["NC", NO_RAIL, ""].contains(&label)
}

fn rail(board: &Board, names: &mut Names, label: &str, volts: &str, amperes: &str) -> Found {
    let name = format!("rail.{}.power", names.of(label));
    let spec = RAIL.spec(name, format!("/{volts} times /{amperes}"));
    let rail = Rail {
        millivolts: Single::sensor(board, volts, text::integer, 1),
        milliamperes: Single::sensor(board, amperes, text::integer, 1),
    };
    Found::blocking(Tier::Normal, vec![spec], rail)
}

struct Chip<'a> {
    board: &'a Board,
    folder: String,
    name: String,
    files: Vec<String>,
}

impl Chip<'_> {
    fn sensors(&self) -> Vec<Found> {
        let mut files = self.files.clone();
        files.sort_by_key(|name| (name.len(), name.clone()));
        files.iter().filter_map(|file| self.sensor(file)).collect()
    }

    fn sensor(&self, file: &str) -> Option<Found> {
        let path = format!("{}/{file}", self.folder);
        if let Some(rail) = file
            .strip_prefix("oc")
            .and_then(|rest| rest.strip_suffix("_event_cnt"))
        {
            let spec = OVER_CURRENT.spec(
                format!("power.over_current.{}", plain(rail)),
                format!("/{path}"),
            );
            return Some(self.found(spec, Tier::Normal, &path, 1));
        }
        let (stem, what) = file.split_once('_')?;
        let number_at = stem.find(|c: char| c.is_ascii_digit())?;
        let (_, offer, suffix, scale) = KINDS
            .iter()
            .find(|(begin, ..)| *begin == &stem[..number_at])?;
        let label = format!("hwmon.{}.{}", self.name, self.label(stem));
        match what {
            "input" => {
                let spec = offer.spec(format!("{label}.{suffix}"), format!("/{path}"));
                Some(self.found(spec, Tier::Normal, &path, *scale))
            }
            _ if what.ends_with("alarm") => {
                let which = plain(what.trim_end_matches("alarm"));
                let name = match which.as_str() {
                    "unnamed" => format!("{label}.alarm"),
                    which => format!("{label}.alarm_{which}"),
                };
                let spec = ALARM.spec(name, format!("/{path}"));
                Some(self.found(spec, Tier::Slow, &path, 1))
            }
            _ => None,
        }
    }

    fn found(&self, spec: super::Spec, tier: Tier, path: &str, scale: i64) -> Found {
        let source = Single::sensor(self.board, path, text::integer, scale);
        Found::blocking(tier, vec![spec], source)
    }

    /// The label of `temp1`, else `temp1`. Labels need not be unique on a chip, so the stem stays.
    fn label(&self, stem: &str) -> String {
        let label = self.board.line(&format!("{}/{stem}_label", self.folder));
        match label.filter(|label| !label.is_empty()) {
            Some(label) => format!("{stem}_{}", plain(&label)),
            None => stem.to_owned(),
        }
    }

    /// Rails of an INA chip: those with a voltage, a current and a name.
    fn rails(&self, names: &mut Names) -> Vec<Found> {
        let mut found = Vec::new();
        for number in 1..=7 {
            let path = |file: &str| format!("{}/{file}", self.folder);
            let (volts, amperes) = (
                path(&format!("in{number}_input")),
                path(&format!("curr{number}_input")),
            );
            let label = self.board.line(&path(&format!("in{number}_label")));
            let label = label.filter(|label| is_rail(label));
            if let (Some(label), true) = (label, self.board.has(&amperes)) {
                found.push(rail(self.board, names, &label, &volts, &amperes));
            }
        }
        found
    }
}

struct Rail {
    millivolts: Single,
    milliamperes: Single,
}

impl Source for Rail {
    fn read(&mut self, out: &mut Readings<'_>) {
        // mV times mA is microwatt.
        let power = out.timed(|| {
            let (volts, amperes) = (self.millivolts.value()?, self.milliamperes.value()?);
            volts
                .checked_mul(amperes)
                .ok_or(Fault::parse("a value beyond what 64 bits hold"))
        });
        out.put(0, power);
    }
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::telemetry::Quality;

    use super::*;
    use crate::sampler::testing::{SLEEPS, Tree};

    #[test]
    fn an_orin_gives_rails_and_over_current_events() {
        let ina = "sys/class/hwmon/hwmon3";
        let oc = "sys/class/hwmon/hwmon4";
        let tree = Tree::with(&[
            (&format!("{ina}/name"), "ina3221\n"),
            (&format!("{ina}/in1_label"), "VDD_IN\n"),
            (&format!("{ina}/in1_input"), "4984\n"),
            (&format!("{ina}/curr1_input"), "1856\n"),
            (&format!("{ina}/curr1_crit_alarm"), "0\n"),
            (&format!("{ina}/in2_label"), "NC\n"),
            (&format!("{ina}/in2_input"), "0\n"),
            (&format!("{ina}/curr2_input"), "0\n"),
            (&format!("{oc}/name"), "soctherm_oc\n"),
            (&format!("{oc}/oc3_event_cnt"), "37\n"),
        ]);
        let readings = tree.read(&Hwmon);
        assert_eq!(readings["rail.vdd_in.power"], Ok(4984 * 1856));
        assert_eq!(readings["hwmon.ina3221.in1_vdd_in.voltage"], Ok(4_984_000));
        assert_eq!(readings["hwmon.ina3221.curr1.current"], Ok(1_856_000));
        assert_eq!(readings["hwmon.ina3221.curr1.alarm_crit"], Ok(0));
        assert_eq!(readings["power.over_current.3"], Ok(37));
        assert!(!readings.contains_key("rail.nc.power"));
    }

    #[test]
    fn a_sensor_that_is_switched_on_later_is_read_from_then_on() {
        let chip = |file: &str| format!("sys/class/hwmon/hwmon0/{file}");
        for errno in SLEEPS {
            for (file, channel) in [
                ("temp1_input", "hwmon.ina3221.temp1.temp"),
                ("in1_input", "rail.vdd_in.power"),
                ("curr1_crit_alarm", "hwmon.ina3221.curr1.alarm_crit"),
            ] {
                let tree = Tree::with(&[
                    (&chip("name"), "ina3221\n"),
                    (&chip("temp1_input"), "5\n"),
                    (&chip("in1_label"), "VDD_IN\n"),
                    (&chip("in1_input"), "5\n"),
                    (&chip("curr1_input"), "1\n"),
                    (&chip("curr1_crit_alarm"), "5\n"),
                ]);
                let (mut watch, answer) = tree.watch_answering(&Hwmon, &chip(file), errno);
                let first = watch.again()[channel].unwrap_err();
                assert_eq!(first.quality, Quality::Busy, "{errno}: {channel}");
                answer.works();
                assert_eq!(watch.again()[channel], Ok(5), "{errno}: {channel}");
            }
        }
    }

    #[test]
    fn a_jetson_of_jetpack_4_gives_rails_by_its_converters() {
        let ina = |file: &str| format!("{CONVERTERS}/iio:device1/{file}");
        let tree = Tree::with(&[
            (&ina("rail_name_0"), "POM_5V_IN\n"),
            (&ina("in_voltage0_input"), "5000\n"),
            (&ina("in_current0_input"), "575\n"),
            (&ina("rail_name_1"), "NC\n"),
            (&ina("in_voltage1_input"), "0\n"),
            (&format!("{CONVERTERS}/iio:device0/in_voltage0_raw"), "1\n"),
        ]);
        let readings = tree.read(&Hwmon);
        assert_eq!(readings["rail.pom_5v_in.power"], Ok(2_875_000));
        let rails = readings.keys().filter(|name| name.starts_with("rail."));
        assert_eq!(rails.count(), 1);
    }
}
