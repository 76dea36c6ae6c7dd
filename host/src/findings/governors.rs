//! Governors that may move a clock that matters to a case.

use crate::telemetry::engines::{Used, of_device};

/// The governors, of those in a board's facts, that may move the clock of these CPU policies, of memory, or
/// of an engine in use; each once, in order. Where the policies are not known, of every policy.
pub(crate) fn free<'a>(
    facts: impl IntoIterator<Item = (&'a str, &'a str)>,
    policies: &[u16],
    used: Used,
) -> Vec<String> {
    let mut free: Vec<String> = facts
        .into_iter()
        .filter(|(_, governor)| !matches!(*governor, "performance" | "userspace"))
        .filter_map(|(name, governor)| {
            let clock = name.strip_prefix("governor.")?;
            if let Some(device) = clock.strip_prefix("devfreq.") {
                let is_used = of_device(device).is_some_and(|engine| used.has(engine));
                return is_used.then(|| format!("{governor} of {device}"));
            }
            let policy = clock.strip_prefix("policy").and_then(|n| n.parse().ok());
            let matters = policies.is_empty() || policy.is_none_or(|n| policies.contains(&n));
            matters.then(|| governor.to_owned())
        })
        .collect();
    free.sort_unstable();
    free.dedup();
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: [(&str, &str); 6] = [
        ("governor.policy0", "schedutil"),
        ("governor.policy4", "ondemand"),
        ("governor.devfreq.dmc", "dmc_ondemand"),
        ("governor.devfreq.fb000000.gpu", "simple_ondemand"),
        ("governor.devfreq.fdab0000.npu", "userspace"),
        ("clock_khz.policy0", "1800000"),
    ];

    #[test]
    fn only_clocks_that_matter_to_the_case_are_told() {
        let cpu = Used::of("rten", None);
        let gpu = Used::of("onnxruntime", Some("CUDA"));
        assert_eq!(free(FACTS, &[4], cpu), ["dmc_ondemand of dmc", "ondemand"]);
        assert_eq!(
            free(FACTS, &[0], gpu),
            [
                "dmc_ondemand of dmc",
                "schedutil",
                "simple_ondemand of fb000000.gpu"
            ]
        );
        let unknown = free(FACTS, &[], cpu);
        assert_eq!(unknown, ["dmc_ondemand of dmc", "ondemand", "schedutil"]);
        let held = [("governor.policy0", "performance")];
        assert_eq!(free(held, &[0], gpu), [] as [&str; 0]);
    }
}
