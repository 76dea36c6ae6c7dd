//! What can be said of a board before it measures: what would spoil the figures, and how.
//!
//! A pure function over what the board said of itself.

use edgedyno_shared::case::Case;
use edgedyno_shared::device::DeviceInfo;

use crate::findings::governors;
use crate::telemetry::Policies;
use crate::telemetry::engines::Used;
use crate::ui::units;

/// A one-minute load for each online CPU above this is told.
const LOAD_HIGH: f64 = 0.5;

/// A temperature from here on is told, in thousandths of a degree.
const HOT: i64 = 80_000;

/// Less memory than this share of all is told.
const LOW_MEMORY: f64 = 0.1;

/// Something that will spoil a figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concern {
    /// The finding that it will most likely become.
    pub code: &'static str,
    pub text: String,
}

/// Codes of findings that a run on a quiet board has none of.
pub const QUIET: [&str; 9] = [
    "load_high",
    "foreign_load",
    "run_queue_delay",
    "steal_time",
    "governor_not_fixed",
    "clock_ramp",
    "no_spare_cpu",
    "memory_near_full",
    "accelerator_shared",
];

/// What is of concern, the gravest first; `holds_clocks` when the plan does that itself.
pub fn concerns(device: &DeviceInfo, cases: &[Case], holds_clocks: bool) -> Vec<Concern> {
    let all = [
        load(device),
        spare_cpu(device, cases),
        governor(device, cases, holds_clocks),
        heat(device),
        memory(device),
        accelerators(device),
    ];
    all.into_iter().flatten().collect()
}

fn load(device: &DeviceInfo) -> Option<Concern> {
    let text = value(device, "load_average")?;
    let load: f64 = text.split_whitespace().next()?.parse().ok()?;
    let cpus = device
        .cpus
        .iter()
        .filter(|cpu| cpu.online != Some(false))
        .count();
    let each = load / cpus.max(1) as f64;
    (each > LOAD_HIGH).then(|| Concern {
        code: "load_high",
        text: format!(
            "the load average is {load} on {cpus} CPUs: others will take CPU and memory from the model, \
             and trials will be slower and wider"
        ),
    })
}

/// The agent needs a CPU of its own.
fn spare_cpu(device: &DeviceInfo, cases: &[Case]) -> Option<Concern> {
    let takes_all = |case: &&Case| match &case.cpus {
        Some(cpus) => device.allowed_cpus.iter().all(|cpu| cpus.contains(cpu)),
        None => case.threads.intra.max(case.threads.inter) as usize >= device.allowed_cpus.len(),
    };
    let case = cases.iter().find(takes_all)?;
    Some(Concern {
        code: "no_spare_cpu",
        text: format!(
            "{} threads leave no CPU for the agent: what it does will be inside the trials",
            case.threads.intra.max(case.threads.inter)
        ),
    })
}

fn governor(device: &DeviceInfo, cases: &[Case], holds_clocks: bool) -> Option<Concern> {
    let facts = || {
        let facts = device.facts.iter();
        facts.filter_map(|fact| Some((fact.name.as_str(), fact.value.value()?)))
    };
    let policies = Policies::of(facts(), []);
    let of_case = |case: &Case| {
        let cpus = case.cpus.as_ref().unwrap_or(&device.allowed_cpus);
        let provider = case.options.iter().find(|(name, _)| name == "provider");
        let used = Used::of(&case.backend, provider.map(|(_, name)| name.as_str()));
        governors::free(facts(), &policies.of_cpus(cpus.iter().copied()), used)
    };
    let mut free: Vec<String> = cases.iter().flat_map(of_case).collect();
    free.sort_unstable();
    free.dedup();
    (!holds_clocks && !free.is_empty()).then(|| Concern {
        code: "governor_not_fixed",
        text: format!(
            "the governor is {}: clocks may move while it measures; --fix-clocks holds them",
            free.join(", ")
        ),
    })
}

fn heat(device: &DeviceInfo) -> Option<Concern> {
    let sensors = device.facts.iter().filter_map(|fact| {
        let sensor = fact.name.strip_prefix("temperature_millicelsius.")?;
        Some((sensor, fact.value.value()?.parse::<i64>().ok()?))
    });
    let (sensor, shown) = sensors.max_by_key(|(_, shown)| *shown)?;
    (shown >= HOT).then(|| Concern {
        code: "throttled",
        text: format!(
            "{sensor} is at {} °C: the board may slow down; --cool-down waits",
            units::figure(shown as f64 / 1e3)
        ),
    })
}

fn memory(device: &DeviceInfo) -> Option<Concern> {
    let available: u64 = value(device, "memory_available_bytes")?.parse().ok()?;
    let total = device.memory_total?.0;
    let share = available as f64 / total.max(1) as f64;
    (share < LOW_MEMORY).then(|| Concern {
        code: "memory_near_full",
        text: format!(
            "only {} of {} memory are available: pages may go to disk, or the worker may be killed",
            units::bytes(available as f64),
            units::bytes(total as f64)
        ),
    })
}

fn accelerators(device: &DeviceInfo) -> Option<Concern> {
    let users = value(device, "accelerator_users").filter(|users| *users != "none")?;
    Some(Concern {
        code: "accelerator_shared",
        text: format!(
            "others have an accelerator open: {users}; what they run there and move through memory will \
             be in the trials"
        ),
    })
}

fn value<'a>(device: &'a DeviceInfo, name: &str) -> Option<&'a str> {
    device
        .facts
        .iter()
        .find(|fact| fact.name == name)?
        .value
        .value()
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::device::Reading;

    use super::*;
    use crate::store::sample;

    fn codes(device: &DeviceInfo, cases: &[Case], holds: bool) -> Vec<&'static str> {
        concerns(device, cases, holds)
            .iter()
            .map(|c| c.code)
            .collect()
    }

    fn with(name: &str, value: &str) -> DeviceInfo {
        let mut device = sample::device();
        device.facts.retain(|fact| fact.name != name);
        device.facts.push(sample::fact(name, value));
        device
    }

    #[test]
    fn a_quiet_board_is_of_no_concern() {
        assert_eq!(
            codes(&sample::device(), &[sample::case()], false),
            [] as [&str; 0]
        );
    }

    #[test]
    fn each_concern_names_the_finding_it_will_be() {
        let cases = [sample::case()];
        let of = |name, value| codes(&with(name, value), &cases, false);
        // Four CPUs: half a load for each is 2.
        assert_eq!(of("load_average", "2.10 1 1 1/300 42"), ["load_high"]);
        assert_eq!(of("load_average", "1.90 1 1 1/300 42"), [] as [&str; 0]);
        assert_eq!(of("governor.policy0", "schedutil"), ["governor_not_fixed"]);
        assert_eq!(of("temperature_millicelsius.cpu", "85000"), ["throttled"]);
        assert_eq!(of("memory_available_bytes", "1000"), ["memory_near_full"]);
        let users = "camera (70) /dev/bpu0";
        assert_eq!(of("accelerator_users", users), ["accelerator_shared"]);
        assert_eq!(of("accelerator_users", "none"), [] as [&str; 0]);
        let device = with("governor.policy0", "schedutil");
        assert_eq!(codes(&device, &cases, true), [] as [&str; 0]);
    }

    #[test]
    fn governors_of_what_the_case_uses_are_told() {
        // The case runs on CPUs 2 and 3, by ONNX Runtime's own kernels.
        let mut case = sample::case();
        let of = |facts: &[(&str, &str)], case: &Case| {
            let mut device = sample::device();
            let facts = facts.iter().map(|(name, value)| sample::fact(name, value));
            device.facts.extend(facts);
            codes(&device, std::slice::from_ref(case), false)
        };
        let not_fixed = ["governor_not_fixed"];
        let quiet = [] as [&str; 0];
        assert_eq!(
            of(&[("governor.devfreq.dmc", "dmc_ondemand")], &case),
            not_fixed
        );
        let gpu = [("governor.devfreq.fb000000.gpu", "simple_ondemand")];
        assert_eq!(of(&gpu, &case), quiet);
        assert_eq!(of(&[("governor.policy4", "schedutil")], &case), quiet);
        let lists = [
            ("governor.policy4", "schedutil"),
            ("policy_cpus.policy0", "0-1,4-5"),
            ("policy_cpus.policy4", "2-3"),
        ];
        assert_eq!(of(&lists, &case), not_fixed);
        case.options.push(("provider".into(), "CUDA".into()));
        assert_eq!(of(&gpu, &case), not_fixed);
    }

    #[test]
    fn a_case_that_takes_every_cpu_is_told() {
        let mut case = sample::case();
        case.cpus = Some(vec![0, 1, 2, 3]);
        assert_eq!(codes(&sample::device(), &[case], false), ["no_spare_cpu"]);
    }

    #[test]
    fn what_is_not_known_is_of_no_concern() {
        let mut device = sample::device();
        for fact in &mut device.facts {
            fact.value = Reading::Absent("no such file".into());
        }
        device.memory_total = None;
        assert_eq!(codes(&device, &[sample::case()], false), [] as [&str; 0]);
    }
}
