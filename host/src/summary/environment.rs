//! The board a result holds for, and a fingerprint to compare it by.

use std::collections::HashSet;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::store::rows::FactRow;
use crate::view::CaseView;

/// Facts that identify a set-up; those that come and go (load, temperature) are left out.
const LASTING: [&str; 10] = [
    "kernel_release",
    "kernel_version",
    "cpu_model",
    "board_model",
    "governor",
    OF_DEVICES,
    "clock_min_khz",
    "clock_max_khz",
    "smt_active",
    "transparent_hugepage",
];

/// Governors of other clocks than those of CPUs, `governor.devfreq.dmc`, are a subject of their own.
const OF_DEVICES: &str = "governor.devfreq";

/// What was known of the board when the latest counting repeat began.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment {
    pub board: String,
    pub os: Option<String>,
    pub arch: Option<String>,
    pub cpus: Option<u32>,
    pub memory_bytes: Option<u64>,
    pub agent_version: Option<String>,
    pub agent_build: Option<String>,
    /// Shared between cases where many are summarised at once: most of it is the same for all of a board.
    pub facts: Vec<Arc<FactRow>>,
    /// First twelve hex digits of the SHA-256 over lasting facts and the runtime's hash.
    pub fingerprint: Option<String>,
}

impl Environment {
    pub fn of(view: &CaseView) -> Self {
        let latest = view.telling().last();
        let start = latest.and_then(|repeat| repeat.row.start.as_ref());
        let device = view.device.as_ref();
        let facts = start.map(|start| &start.environment);
        let facts = facts.or_else(|| device.map(|device| &device.facts));
        let runtime = latest.and_then(|repeat| repeat.row.runtime.as_ref());
        let runtime = runtime
            .and_then(|runtime| runtime.sha256.as_ref())
            .map(ToString::to_string);
        Self {
            board: view.entry.case.board.clone(),
            os: device.map(|d| d.os.clone()),
            arch: device.map(|d| d.arch.clone()),
            cpus: device
                .map(|d| d.cpus.iter().filter(|cpu| cpu.online == Some(true)).count() as u32),
            memory_bytes: device.and_then(|d| d.memory_total_bytes),
            agent_version: device.map(|d| d.agent_version.clone()),
            agent_build: start.map(|start| start.build.clone()),
            fingerprint: facts.map(|facts| fingerprint(facts, runtime)),
            facts: facts.into_iter().flatten().cloned().map(Arc::new).collect(),
        }
    }

    /// Takes facts that are known already in place of its own equal ones.
    pub fn share(&mut self, known: &mut HashSet<Arc<FactRow>>) {
        for fact in &mut self.facts {
            match known.get(fact) {
                Some(same) => *fact = same.clone(),
                None => drop(known.insert(fact.clone())),
            }
        }
    }

    /// The value of one fact, if it could be read.
    pub fn fact(&self, name: &str) -> Option<&str> {
        let fact = self.facts.iter().find(|fact| fact.name == name)?;
        fact.value.as_deref()
    }

    /// The values of a fact that exists once for each of several parts, such as `governor.policy0`:
    /// each value once, in order.
    pub fn facts_of(&self, subject: &str) -> Option<String> {
        let mut values: Vec<&str> = Vec::new();
        for fact in self
            .facts
            .iter()
            .filter(|fact| subject_of(&fact.name) == subject)
        {
            let Some(value) = fact.value.as_deref() else {
                continue;
            };
            if !values.contains(&value) {
                values.push(value);
            }
        }
        (!values.is_empty()).then(|| values.join(", "))
    }
}

/// Whether a fact says the same for as long as nobody changes the board's settings.
pub fn is_lasting(name: &str) -> bool {
    LASTING.contains(&subject_of(name))
}

/// `governor` of `governor.policy0`.
pub fn subject_of(name: &str) -> &str {
    if name.starts_with(OF_DEVICES) {
        return OF_DEVICES;
    }
    name.split('.').next().unwrap_or(name)
}

fn fingerprint(facts: &[FactRow], runtime: Option<String>) -> String {
    let mut lasting: Vec<String> = facts
        .iter()
        .filter(|fact| is_lasting(&fact.name))
        .map(|fact| {
            format!(
                "{}={}",
                fact.name,
                fact.value.as_deref().unwrap_or(&fact.state)
            )
        })
        .collect();
    lasting.sort();
    lasting.extend(runtime.map(|hash| format!("runtime={hash}")));
    let digest = Sha256::digest(lasting.join("\n"));
    digest[..6]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
