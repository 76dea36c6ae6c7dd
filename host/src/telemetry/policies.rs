//! Which clock policy drives which CPU.

use crate::options::parse;

/// The clock policies of a board, each by its number: `policy4` is 4.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policies {
    /// Those whose CPUs the board told.
    listed: Vec<(u16, Vec<u16>)>,
    /// Those it did not tell that of.
    unlisted: Vec<u16>,
}

impl Policies {
    /// From facts of the board, name and value, and names of its channels.
    pub fn of<'a>(
        facts: impl IntoIterator<Item = (&'a str, &'a str)>,
        channels: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut out = Self::default();
        for (name, value) in facts {
            let listed = name.strip_prefix("policy_cpus.").and_then(number);
            match listed.zip(parse::cpus(value).ok()) {
                Some((policy, cpus)) => out.listed.push((policy, cpus.0)),
                None => out
                    .unlisted
                    .extend(name.strip_prefix("governor.").and_then(number)),
            }
        }
        let clock = |name: &'a str| name.strip_prefix("cpu.")?.strip_suffix(".freq");
        let clocks = channels.into_iter().filter_map(clock);
        out.unlisted.extend(clocks.filter_map(number));
        let is_listed = |policy: &u16| out.listed.iter().any(|(listed, _)| listed == policy);
        out.unlisted.retain(|policy| !is_listed(policy));
        out
    }

    /// Policies of these CPUs, in order. One whose CPUs were not told goes by the first of them, and is
    /// taken to have those up to the next policy's: clusters may lie in one another, and then that is wrong.
    pub fn of_cpus(&self, cpus: impl IntoIterator<Item = u16>) -> Vec<u16> {
        let of_cpu = |cpu: u16| {
            let told = self.listed.iter().find(|(_, cpus)| cpus.contains(&cpu));
            let before = self.unlisted.iter().copied().filter(|first| *first <= cpu);
            told.map(|(policy, _)| *policy).or_else(|| before.max())
        };
        let mut policies: Vec<u16> = cpus.into_iter().filter_map(of_cpu).collect();
        policies.sort_unstable();
        policies.dedup();
        policies
    }
}

fn number(policy: &str) -> Option<u16> {
    policy.strip_prefix("policy")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_board_tells_of_its_policies_counts() {
        // A TX2: the Denver cores 1 and 2 lie between those of the other cluster.
        let told = [
            ("governor.policy0", "schedutil"),
            ("policy_cpus.policy0", "0,3-5"),
            ("policy_cpus.policy1", "1-2"),
        ];
        let channels = [
            "cpu.policy0.freq",
            "cpu.policy1.freq",
            "cpu.policy1.freq_max",
        ];
        let policies = Policies::of(told, channels);
        assert_eq!(policies.of_cpus([0, 3, 5]), [0]);
        assert_eq!(policies.of_cpus([2]), [1]);
        assert_eq!(policies.of_cpus([4, 1]), [0, 1]);
        assert_eq!(policies.of_cpus([6]), [] as [u16; 0]);
    }

    #[test]
    fn without_that_a_policy_has_the_cpus_up_to_the_next() {
        let channels = ["cpu.policy4.freq", "cpu.policy0.freq", "devfreq.dmc.freq"];
        let policies = Policies::of([("governor.policy0", "performance")], channels);
        assert_eq!(policies.of_cpus([3, 2]), [0]);
        assert_eq!(policies.of_cpus([7]), [4]);
        let by_facts = Policies::of([("governor.policy4", "x"), ("governor.policy0", "x")], []);
        assert_eq!(by_facts.of_cpus([3, 7]), [0, 4]);
        assert_eq!(Policies::default().of_cpus([0]), [] as [u16; 0]);
    }

    #[test]
    fn a_list_that_makes_no_sense_is_none() {
        let policies = Policies::of([("policy_cpus.policy0", "0 3")], ["cpu.policy0.freq"]);
        assert_eq!(policies.of_cpus([5]), [0]);
        let devices = Policies::of([("governor.devfreq.policy3", "x")], []);
        assert_eq!(devices.of_cpus([5]), [] as [u16; 0]);
    }
}
