//! Thermal zones with their trips, and the devices that cool by slowing something down.

use edgedyno_shared::telemetry::{ChannelKind, Fidelity, Quality};

use super::Sampler;
use super::board::{Board, Names};
use super::fault::Fault;
use super::offer::{Found, Offer, Tier};
use super::source::{Single, single};
use super::text;

const FOLDER: &str = "sys/class/thermal";

/// What a Jetson shows for a zone whose unit is switched off.
const SWITCHED_OFF: i64 = -256_000;

const TEMPERATURE: Offer = Offer {
    name: "therm.ZONE.temp",
    unit: "millicelsius",
    kind: ChannelKind::Gauge,
    fidelity: Fidelity::Measured,
    native_period: None,
    source: "/sys/class/thermal/thermal_zoneN/temp",
    rights: "any user",
    boards: "every Linux with thermal zones",
    meaning: "Named by the zone's type, since numbers change between boots. A zone that is switched off has no value, and is `busy`, until it is on.",
};

const TRIP: Offer = Offer {
    name: "therm.ZONE.trip_K_TYPE",
    source: "/sys/class/thermal/thermal_zoneN/trip_point_K_temp",
    meaning: "Where the kernel begins to slow down (passive), to blow (active) or switches off (hot, critical). Read once.",
    ..TEMPERATURE
};

const COOLING: Offer = Offer {
    name: "cool.DEVICE.state",
    unit: "steps",
    kind: ChannelKind::State,
    source: "/sys/class/thermal/cooling_deviceN/cur_state",
    meaning: "How far a device is slowed down to cool, from 0. A fan is a cooling device too: its type says which it is.",
    ..TEMPERATURE
};

const COOLING_MOST: Offer = Offer {
    name: "cool.DEVICE.most",
    source: "/sys/class/thermal/cooling_deviceN/max_state",
    meaning: "The last step of that device. Read once.",
    ..COOLING
};

pub(super) struct Thermal;

impl Sampler for Thermal {
    fn name(&self) -> &'static str {
        "thermal"
    }

    fn offers(&self) -> &'static [Offer] {
        &[TEMPERATURE, TRIP, COOLING, COOLING_MOST]
    }

    fn find(&self, board: &Board) -> Vec<Found> {
        let mut found = Vec::new();
        let mut names = Names::default();
        match board.entries(FOLDER, "thermal_zone") {
            Err(_) => found.push(TEMPERATURE.absent(format!("/{FOLDER} has no zones"))),
            Ok(zones) => {
                for zone in zones {
                    let folder = format!("{FOLDER}/{zone}");
                    let kind = board.line(&format!("{folder}/type"));
                    let name = names.of(&kind.unwrap_or(zone));
                    found.extend(of_zone(board, &folder, &name));
                }
            }
        }
        let mut names = Names::default();
        for device in board.entries(FOLDER, "cooling_device").unwrap_or_default() {
            let folder = format!("{FOLDER}/{device}");
            let kind = board.line(&format!("{folder}/type"));
            let name = names.of(&kind.unwrap_or(device));
            let one = |tier, offer, what: &str, file: &str| {
                let name = format!("cool.{name}.{what}");
                single(board, tier, offer, &name, &format!("{folder}/{file}"), 1)
            };
            found.push(one(Tier::Normal, &COOLING, "state", "cur_state"));
            found.push(one(Tier::Once, &COOLING_MOST, "most", "max_state"));
        }
        found
    }
}

fn of_zone(board: &Board, folder: &str, name: &str) -> Vec<Found> {
    let path = format!("{folder}/temp");
    let spec = TEMPERATURE.spec(format!("therm.{name}.temp"), format!("/{path}"));
    // Firmware or a bus may be asked for a temperature.
    let source = Single::sensor(board, &path, temperature, 1);
    let mut found = vec![Found::blocking(Tier::Normal, vec![spec], source)];
    for trip in 0.. {
        let path = format!("{folder}/trip_point_{trip}_temp");
        if !board.has(&path) {
            break;
        }
        let kind = board.line(&format!("{folder}/trip_point_{trip}_type"));
        let kind = kind.unwrap_or_else(|| "unknown".into());
        let name = format!("therm.{name}.trip_{trip}_{kind}");
        found.push(single(board, Tier::Once, &TRIP, &name, &path, 1));
    }
    found
}

/// What every sensor of temperature shows now, by its channel's name.
pub fn temperatures(board: &Board) -> Vec<(String, i64)> {
    let mut names = Names::default();
    let zones = board.entries(FOLDER, "thermal_zone").unwrap_or_default();
    let shown = zones.into_iter().filter_map(|zone| {
        let folder = format!("{FOLDER}/{zone}");
        let kind = board.line(&format!("{folder}/type"));
        let name = format!("therm.{}.temp", names.of(&kind.unwrap_or(zone)));
        let mut file = Single::sensor(board, &format!("{folder}/temp"), temperature, 1);
        Some((name, file.value().ok()?))
    });
    shown.collect()
}

fn temperature(held: &[u8]) -> Result<i64, Fault> {
    match text::integer(held)? {
        // What it measures may be switched on by the very work that is watched.
        SWITCHED_OFF => Err(Fault::new(Quality::Busy, "the sensor is switched off now")),
        value => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;
    use crate::sampler::testing::{SLEEPS, Tree};

    #[test]
    fn zones_go_by_their_type_and_a_switched_off_one_has_no_value() {
        let tree = Tree::with(&[
            ("sys/class/thermal/thermal_zone0/type", "CPU-therm\n"),
            ("sys/class/thermal/thermal_zone0/temp", "63625\n"),
            (
                "sys/class/thermal/thermal_zone0/trip_point_0_temp",
                "95000\n",
            ),
            (
                "sys/class/thermal/thermal_zone0/trip_point_0_type",
                "passive\n",
            ),
            ("sys/class/thermal/thermal_zone1/type", "cv0-therm\n"),
            ("sys/class/thermal/thermal_zone1/temp", "-256000\n"),
            ("sys/class/thermal/cooling_device0/type", "Processor\n"),
            ("sys/class/thermal/cooling_device0/cur_state", "1\n"),
            ("sys/class/thermal/cooling_device0/max_state", "3\n"),
            ("sys/class/thermal/cooling_device1/type", "Processor\n"),
            ("sys/class/thermal/cooling_device1/cur_state", "0\n"),
        ]);
        let readings = tree.read(&Thermal);
        assert_eq!(readings["therm.cpu_therm.temp"], Ok(63_625));
        assert_eq!(readings["therm.cpu_therm.trip_0_passive"], Ok(95_000));
        let off = readings["therm.cv0_therm.temp"].unwrap_err();
        assert_eq!(off.quality, Quality::Busy);
        assert_eq!(readings["cool.processor.state"], Ok(1));
        assert_eq!(readings["cool.processor.most"], Ok(3));
        assert_eq!(readings["cool.processor_2.state"], Ok(0));
    }

    #[test]
    fn a_zone_that_is_switched_on_later_is_read_from_then_on() {
        let temp = "sys/class/thermal/thermal_zone0/temp";
        let kind = "sys/class/thermal/thermal_zone0/type";
        let tree = Tree::with(&[(kind, "gpu-thermal\n"), (temp, "-256000\n")]);
        let mut watch = tree.watch(&Thermal);
        assert!(watch.again()["therm.gpu_thermal.temp"].is_err());
        tree.set(temp, "51000\n");
        assert_eq!(watch.again()["therm.gpu_thermal.temp"], Ok(51_000));
    }

    #[test]
    fn a_zone_that_answers_with_an_error_at_first_is_read_from_then_on() {
        for errno in SLEEPS {
            let temp = "sys/class/thermal/thermal_zone0/temp";
            let kind = "sys/class/thermal/thermal_zone0/type";
            let tree = Tree::with(&[(kind, "npu-thermal\n"), (temp, "51000\n")]);
            let (mut watch, answer) = tree.watch_answering(&Thermal, temp, errno);
            let first = watch.again()["therm.npu_thermal.temp"].unwrap_err();
            assert_eq!(first.quality, Quality::Busy, "{errno}");
            answer.works();
            assert_eq!(watch.again()["therm.npu_thermal.temp"], Ok(51_000));
        }
    }

    #[test]
    fn a_zone_that_is_not_there_any_more_is_not_asleep() {
        let temp = "sys/class/thermal/thermal_zone0/temp";
        let tree = Tree::with(&[(temp, "51000\n")]);
        let (mut watch, _answer) = tree.watch_answering(&Thermal, temp, Errno::ENODEV);
        let gone = watch.again()["therm.thermal_zone0.temp"].unwrap_err();
        assert_eq!(gone.quality, Quality::Absent);
    }
}
