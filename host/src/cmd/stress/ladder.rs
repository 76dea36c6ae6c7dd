//! Which conditions an experiment has.

use edgedyno_shared::device::DeviceInfo;
use edgedyno_shared::load::{KINDS, Throttle, WorkUnit};

use crate::exit::CommandError;
use crate::plan::axes::cpu_list;
use crate::plan::check;
use crate::plan::condition::{Condition, Level, Term};

/// Levels of a ladder where nobody names others, in percent of the calibrated maximum.
pub(super) const LEVELS: &str = "10,25,40,55,70,85,100";

/// What a ladder is made of.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wish {
    pub(super) stressors: Vec<String>,
    /// Percent of the maximum.
    pub(super) levels: Vec<f64>,
    pub(super) cpus: Vec<u16>,
    pub(super) throttle: Throttle,
    pub(super) working_set: Option<u64>,
}

/// CPUs of the worker and of the stressors, where they are not named: the worker gets the last ones, where
/// big cores usually are; of the others the first is left to the agent, where that leaves one.
pub(super) fn share_cpus(
    device: &DeviceInfo,
    threads: u32,
    worker: Option<Vec<u16>>,
    stress: Option<Vec<u16>>,
) -> Result<(Vec<u16>, Vec<u16>), CommandError> {
    let allowed = &device.allowed_cpus;
    for named in worker.iter().chain(&stress) {
        check::cpus(device, named)?;
    }
    let without = |taken: &[u16]| -> Vec<u16> {
        let left = allowed.iter().filter(|cpu| !taken.contains(cpu));
        left.copied().collect()
    };
    let worker = worker.unwrap_or_else(|| {
        let calm = without(stress.as_deref().unwrap_or_default());
        calm[calm.len().saturating_sub(threads.max(1) as usize)..].to_vec()
    });
    let stress = stress.unwrap_or_else(|| match without(&worker) {
        others if others.len() > 1 => others[1..].to_vec(),
        others => others,
    });
    if worker.is_empty() || stress.is_empty() {
        let what = "no CPU is left for the load beside the model";
        return Err(CommandError::usage(what).hint(format!(
            "the agent may use {}; name fewer with --threads, --cpus or --stress-cpus",
            cpu_list(allowed)
        )));
    }
    if let Some(both) = worker.iter().find(|cpu| stress.contains(cpu)) {
        let what = format!("CPU {both} is to run the model and the load");
        return Err(CommandError::usage(what).hint(
            "a load on the model's own CPU measures the scheduler; `sweep` has `--axis condition`",
        ));
    }
    Ok((worker, stress))
}

/// Idle, spin, and every stressor at every level.
pub(super) fn conditions(wish: &Wish) -> Result<Vec<String>, CommandError> {
    let mut out = vec![Condition::default(), one(wish, "spin", &wish.cpus, 100.0)?];
    for stressor in &wish.stressors {
        for level in &wish.levels {
            // Nothing of a load on a busy CPU is what spin is.
            if *level > 0.0 {
                out.push(one(wish, stressor, &wish.cpus, *level)?);
            }
        }
    }
    Ok(distinct(&out))
}

/// A condition with each value of an option of its models, or as it is where none is asked for.
pub(super) fn over_option(own: &Condition, option: Option<&(String, String)>) -> Vec<Condition> {
    let Some((key, values)) = option.filter(|_| !own.tenants.is_empty()) else {
        return vec![own.clone()];
    };
    let with = |value: &str| {
        let mut condition = own.clone();
        for tenant in &mut condition.tenants {
            tenant.set_option(key, value.trim());
        }
        condition.sort();
        condition
    };
    values.split(',').map(with).collect()
}

/// Idle, spin, and every stressor at full effort in every place: each CPU by itself, and all together.
pub(super) fn worst(wish: &Wish) -> Result<Vec<String>, CommandError> {
    let mut places = vec![wish.cpus.clone()];
    if wish.cpus.len() > 1 {
        places.extend(wish.cpus.iter().map(|cpu| vec![*cpu]));
    }
    let mut out = vec![Condition::default()];
    for place in &places {
        out.push(one(wish, "spin", place, 100.0)?);
        for kind in KINDS
            .iter()
            .filter(|kind| matches!(kind.unit, WorkUnit::Bytes | WorkUnit::Operations))
            .filter(|kind| kind.name != "io")
        {
            out.push(one(wish, kind.name, place, 100.0)?);
        }
    }
    Ok(distinct(&out))
}

fn one(wish: &Wish, stressor: &str, cpus: &[u16], percent: f64) -> Result<Condition, CommandError> {
    let text = match percent {
        100.0 => format!("{stressor}:cpu{}", cpu_list(cpus)),
        percent => format!("{stressor}:cpu{}@{percent}%", cpu_list(cpus)),
    };
    let mut condition = Condition::parse(&text).map_err(|why| {
        CommandError::usage(format!("`{text}` is no condition: {why}"))
            .hint("docs/contention.md lists stressors and how conditions are written")
    })?;
    for term in &mut condition.terms {
        decorate(term, wish);
    }
    Ok(condition)
}

/// What a throttle and a working set mean to a stressor that has a use for them.
fn decorate(term: &mut Term, wish: &Wish) {
    if term.level != Level::Full {
        term.throttle = wish.throttle;
    }
    if term.kind.unit == WorkUnit::Bytes && term.kind.name != "io" {
        term.working_set = wish.working_set;
    }
}

fn distinct(conditions: &[Condition]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for condition in conditions {
        let text = condition.to_string();
        if !out.contains(&text) {
            out.push(text);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sample;

    fn wish() -> Wish {
        Wish {
            stressors: vec!["mem_copy_nt".into(), "mem_read".into()],
            levels: vec![0.0, 50.0, 100.0],
            cpus: vec![1, 2],
            throttle: Throttle::Spin,
            working_set: None,
        }
    }

    #[test]
    fn a_ladder_is_idle_spin_and_every_level_of_every_stressor() {
        let expected = [
            "idle",
            "spin:cpu1-2",
            "mem_copy_nt:cpu1-2@50%",
            "mem_copy_nt:cpu1-2",
            "mem_read:cpu1-2@50%",
            "mem_read:cpu1-2",
        ];
        assert_eq!(conditions(&wish()).unwrap(), expected);
        let mut sleeping = wish();
        sleeping.throttle = Throttle::Sleep;
        sleeping.working_set = Some(64 << 20);
        let conditions = conditions(&sleeping).unwrap();
        assert_eq!(conditions[1], "spin:cpu1-2");
        assert_eq!(conditions[2], "mem_copy_nt:cpu1-2@50%/sleep/ws=64MiB");
        assert_eq!(conditions[3], "mem_copy_nt:cpu1-2/ws=64MiB");
    }

    #[test]
    fn a_quota_makes_a_condition_of_each_of_its_values() {
        let own = Condition::parse("mem_read:cpu1+model:b.onnx:cpu2").unwrap();
        let option = ("quota".to_owned(), "25, 50".to_owned());
        let found = over_option(&own, Some(&option));
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "mem_read:cpu1+model:b.onnx:cpu2/option.quota=25",
                "mem_read:cpu1+model:b.onnx:cpu2/option.quota=50",
            ]
        );
        assert_eq!(over_option(&own, None), std::slice::from_ref(&own));
        let plain = Condition::parse("mem_read:cpu1").unwrap();
        assert_eq!(over_option(&plain, Some(&option)), [plain]);
    }

    #[test]
    fn the_worst_is_looked_for_on_each_cpu_and_on_all() {
        let conditions = worst(&wish()).unwrap();
        for there in [
            "idle",
            "spin:cpu1",
            "mem_write_nt:cpu1-2",
            "chase:cpu2",
            "cpu_simd:cpu1",
        ] {
            assert!(conditions.iter().any(|c| c == there), "{there}");
        }
        // 13 kinds that work and are not io, less spin, and spin: in three places, and idle.
        assert_eq!(conditions.len(), 1 + 3 * 13);
    }

    #[test]
    fn the_model_gets_the_last_cpus_and_the_agent_the_first() {
        let device = sample::device();
        let shared = |threads, worker, stress| share_cpus(&device, threads, worker, stress);
        assert_eq!(shared(1, None, None).unwrap(), (vec![3], vec![1, 2]));
        assert_eq!(shared(3, None, None).unwrap(), (vec![1, 2, 3], vec![0]));
        assert_eq!(shared(1, None, Some(vec![3])).unwrap(), (vec![2], vec![3]));
        assert_eq!(
            shared(1, Some(vec![0]), None).unwrap(),
            (vec![0], vec![2, 3])
        );
        assert!(
            shared(4, None, None)
                .unwrap_err()
                .hint
                .unwrap()
                .contains("0-3")
        );
        assert!(
            shared(1, Some(vec![2]), Some(vec![2]))
                .unwrap_err()
                .what
                .contains("CPU 2")
        );
        assert!(shared(1, Some(vec![9]), None).is_err());
    }
}
