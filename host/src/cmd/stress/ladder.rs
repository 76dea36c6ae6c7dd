//! Which conditions an experiment has.

use edgedyno_shared::device::DeviceInfo;
use edgedyno_shared::load::{KINDS, Throttle, WorkUnit};

use crate::exit::CommandError;
use crate::plan::axes::cpu_list;
use crate::plan::check;
use crate::plan::condition::{Condition, Level, Term};

/// Levels of a ladder where nobody names others, in percent of the calibrated maximum.
pub(super) const LEVELS: [f64; 7] = [10.0, 25.0, 40.0, 55.0, 70.0, 85.0, 100.0];

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

/// Idle, the ladder of stressors where there are some, and conditions of somebody's own, each with its control.
pub(super) fn with_own(wish: &Wish, own: &[Condition]) -> Result<Vec<String>, CommandError> {
    let mut out = match own {
        [] => ladder(wish)?,
        _ if wish.stressors.is_empty() => vec![Condition::default()],
        _ => ladder(wish)?,
    };
    for cpus in places(own) {
        out.push(one(wish, "spin", &cpus, 100.0)?);
    }
    out.extend(own.iter().cloned());
    Ok(distinct(&out))
}

/// The sets of CPUs that conditions have, each once: what is left of one beside its control is told by a
/// control on the same CPUs, no more and no fewer.
fn places(conditions: &[Condition]) -> Vec<Vec<u16>> {
    let mut out: Vec<Vec<u16>> = Vec::new();
    for condition in conditions {
        let mut cpus: Vec<u16> = condition.cpus().collect();
        cpus.sort_unstable();
        cpus.dedup();
        if !cpus.is_empty() && !out.contains(&cpus) {
            out.push(cpus);
        }
    }
    out
}

/// Idle, spin, and every stressor at every level.
fn ladder(wish: &Wish) -> Result<Vec<Condition>, CommandError> {
    let mut out = vec![Condition::default(), one(wish, "spin", &wish.cpus, 100.0)?];
    for stressor in &wish.stressors {
        for level in &wish.levels {
            // Nothing of a load on a busy CPU is what spin is.
            if *level > 0.0 {
                out.push(one(wish, stressor, &wish.cpus, *level)?);
            }
        }
    }
    Ok(out)
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

/// More single CPUs than this are not tried one by one: each is a dozen conditions, and CPUs of one kind in one
/// place of the chip are as good as each other.
const MOST_PLACES: usize = 4;

/// Idle, spin, and every stressor at full effort in every place: all CPUs together, and each by itself. Of many
/// CPUs one of each kind is tried; what was left out is said.
pub(super) fn worst(
    wish: &Wish,
    device: &DeviceInfo,
) -> Result<(Vec<String>, Option<String>), CommandError> {
    let single = match wish.cpus.len() {
        0 | 1 => Vec::new(),
        n if n <= MOST_PLACES => wish.cpus.clone(),
        _ => one_of_each(&wish.cpus, device),
    };
    let left_out: Vec<u16> = wish
        .cpus
        .iter()
        .copied()
        .filter(|cpu| !single.contains(cpu))
        .collect();
    let left_out = (wish.cpus.len() > 1 && !left_out.is_empty()).then(|| {
        format!(
            "of {} CPUs of the load {} are tried by themselves and {} only together with all others; \
             --stress-cpus names others",
            wish.cpus.len(),
            cpu_list(&single),
            cpu_list(&left_out)
        )
    });
    let mut places = vec![wish.cpus.clone()];
    places.extend(single.iter().map(|cpu| vec![*cpu]));
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
    Ok((distinct(&out), left_out))
}

/// The first of the CPUs of each kind, which is told by the highest clock, and the last of all: where CPUs
/// share caches by their numbers, that is the farthest from it. No more than [`MOST_PLACES`].
fn one_of_each(cpus: &[u16], device: &DeviceInfo) -> Vec<u16> {
    let kind = |cpu: u16| {
        let known = device.cpus.iter().find(|known| known.id == cpu);
        known.and_then(|known| known.max_khz)
    };
    let mut seen: Vec<Option<u64>> = Vec::new();
    let mut out: Vec<u16> = Vec::new();
    for cpu in cpus {
        let kind = kind(*cpu);
        if !seen.contains(&kind) {
            seen.push(kind);
            out.push(*cpu);
        }
    }
    out.truncate(MOST_PLACES - 1);
    out.extend(cpus.last().filter(|last| !out.contains(last)).copied());
    out
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
    use edgedyno_shared::device::Cpu;

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
        let conditions = |wish: &Wish| with_own(wish, &[]);
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
        let (conditions, left_out) = worst(&wish(), &sample::device()).unwrap();
        assert_eq!(left_out, None);
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
    fn of_many_cpus_one_of_each_kind_is_tried_and_the_rest_is_named() {
        // Four small ones and six large ones.
        let mut device = sample::device();
        let kind = |id: u16| Cpu {
            id,
            online: Some(true),
            max_khz: Some(if id < 4 { 1_800_000 } else { 2_400_000 }),
        };
        device.cpus = (0..10).map(kind).collect();
        let many = Wish {
            cpus: (1..10).collect(),
            ..wish()
        };
        let (conditions, left_out) = worst(&many, &device).unwrap();
        // All together, CPU 1, CPU 4 and the last: thirteen conditions each, and idle.
        assert_eq!(conditions.len(), 1 + 4 * 13);
        for there in ["spin:cpu1-9", "spin:cpu1", "spin:cpu4", "spin:cpu9"] {
            assert!(conditions.iter().any(|c| c == there), "{there}");
        }
        let left_out = left_out.unwrap();
        assert!(left_out.contains("2-3,5-8 only together"), "{left_out}");
    }

    #[test]
    fn each_condition_of_ones_own_has_a_control_on_its_cpus() {
        let own = |all: &[&str]| -> Vec<Condition> {
            let parsed = all.iter().map(|one| Condition::parse(one).unwrap());
            parsed.collect()
        };
        let alone = Wish {
            stressors: Vec::new(),
            ..wish()
        };
        let texts = [
            "mem_read:cpu1",
            "mem_copy:cpu2-3@50%",
            "mem_write:cpu1+spin:cpu3",
            "chase:cpu1",
        ];
        let expected = [
            "idle",
            "spin:cpu1",
            "spin:cpu2-3",
            "spin:cpu1,3",
            "mem_read:cpu1",
            "mem_copy:cpu2-3@50%",
            "mem_write:cpu1+spin:cpu3",
            "chase:cpu1",
        ];
        assert_eq!(with_own(&alone, &own(&texts)).unwrap(), expected);
        // Beside a ladder its own control stays, and what is there already comes once.
        let beside = with_own(&wish(), &own(&["mem_read:cpu1-2", "io:cpu3"])).unwrap();
        assert_eq!(&beside[..2], ["idle", "spin:cpu1-2"]);
        assert_eq!(&beside[beside.len() - 2..], ["spin:cpu3", "io:cpu3"]);
        assert_eq!(
            with_own(&alone, &own(&["spin:cpu2"])).unwrap(),
            ["idle", "spin:cpu2"]
        );
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
