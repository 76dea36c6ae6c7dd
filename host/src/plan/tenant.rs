//! Other models that a condition names: `model:b.onnx@10Hz:cpu3/threads=2/option.KEY=VALUE`.

use std::collections::HashSet;
use std::fmt;

use edgedyno_shared::case::{Case, Condition, ModelRef, RuntimeRef, Tenant};
use edgedyno_shared::ids::Sha256;

use super::axes::{case_key, cpu_list};

/// What such a term begins with.
pub const PREFIX: &str = "model:";

/// How it is written, for messages.
const SUCH_AS: &str = "such as model:b.onnx@10Hz:cpu3";

/// One model of a condition, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantTerm {
    /// A file, or a name that the plan has for one.
    pub model: String,
    /// Ascending, each once.
    pub cpus: Vec<u16>,
    /// Trials a second, in thousandths; none lets one follow the other.
    pub millihertz: Option<u64>,
    /// Without it, as many as it has CPUs.
    pub threads: Option<u32>,
    /// Without them, those of the measured case.
    pub backend: Option<String>,
    pub runtime: Option<String>,
    /// Sorted by key.
    pub options: Vec<(String, String)>,
}

impl TenantTerm {
    /// # Errors
    /// What is wrong with it, and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rest = text.trim().strip_prefix(PREFIX).unwrap_or_default();
        // A path may hold any of the marks before its CPUs; these come last.
        let (head, tail) = rest
            .rsplit_once(":cpu")
            .ok_or_else(|| format!("a model's CPUs are needed, {SUCH_AS}"))?;
        let (model, millihertz) = match head.rsplit_once('@') {
            Some((model, rate)) if rate.ends_with("Hz") => (model, Some(rate_of(rate)?)),
            _ => (head, None),
        };
        if model.is_empty() {
            return Err(format!("a model is needed, {SUCH_AS}"));
        }
        let mut parts = tail.split('/');
        let mut term = Self {
            model: model.to_owned(),
            cpus: super::condition::cpus_of(&format!("cpu{}", parts.next().unwrap_or_default()))?,
            millihertz,
            threads: None,
            backend: None,
            runtime: None,
            options: Vec::new(),
        };
        for part in parts {
            term.take(part)?;
        }
        term.options.sort();
        Ok(term)
    }

    fn take(&mut self, part: &str) -> Result<(), String> {
        let known = "/threads=N, /backend=NAME, /runtime=VERSION or /option.KEY=VALUE";
        let unknown = || format!("`/{part}` is none of {known}");
        let (name, value) = part.split_once('=').ok_or_else(unknown)?;
        if value.is_empty() {
            return Err(format!("`/{part}` has no value"));
        }
        match name {
            "threads" => {
                let threads = value.parse().ok().filter(|threads| *threads > 0);
                let needed = || format!("`{value}` is no number of threads");
                self.threads = Some(threads.ok_or_else(needed)?);
            }
            "backend" => self.backend = Some(value.to_owned()),
            "runtime" => self.runtime = Some(value.to_owned()),
            _ => {
                let key = name.strip_prefix("option.").filter(|key| !key.is_empty());
                self.set_option(key.ok_or_else(unknown)?, value);
            }
        }
        Ok(())
    }

    /// Sets an option; the last word on a key counts.
    pub fn set_option(&mut self, key: &str, value: &str) {
        self.options.retain(|(other, _)| other != key);
        self.options.push((key.to_owned(), value.to_owned()));
        self.options.sort();
    }

    /// What it stands for, on a backend that was chosen for it.
    pub fn resolved(&self, model: ModelRef, backend: &str, runtime: Option<RuntimeRef>) -> Tenant {
        let threads = self.threads.unwrap_or(self.cpus.len() as u32);
        Tenant {
            model,
            backend: backend.to_owned(),
            runtime,
            options: self.options.clone(),
            threads,
            cpus: self.cpus.clone(),
            millihertz: self.millihertz,
        }
    }
}

impl fmt::Display for TenantTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.model)?;
        if let Some(millihertz) = self.millihertz {
            write!(f, "@{}Hz", millihertz as f64 / 1e3)?;
        }
        write!(f, ":cpu{}", cpu_list(&self.cpus))?;
        let known = [
            ("threads", self.threads.map(|n| n.to_string())),
            ("backend", self.backend.clone()),
            ("runtime", self.runtime.clone()),
        ];
        for (name, value) in known {
            if let Some(value) = value {
                write!(f, "/{name}={value}")?;
            }
        }
        for (key, value) in &self.options {
            write!(f, "/option.{key}={value}")?;
        }
        Ok(())
    }
}

fn rate_of(text: &str) -> Result<u64, String> {
    let number: Option<f64> = text.trim_end_matches("Hz").trim().parse().ok();
    let millihertz = number.map(|hertz| (hertz * 1e3).round());
    // The agent's own limits: periods from 10 µs to 100 s.
    let known = millihertz.filter(|rate| (10.0..=1e8).contains(rate));
    known
        .map(|rate| rate as u64)
        .ok_or_else(|| format!("`{text}` is no rate from 0.01Hz to 100000Hz"))
}

/// What a plan with tenants measures besides: the case without them, and each of them alone. What the
/// plan has already is left out.
pub fn baselines<'a>(cases: impl IntoIterator<Item = &'a Case>) -> Vec<Case> {
    let cases: Vec<&Case> = cases.into_iter().collect();
    let mut out: Vec<Case> = Vec::new();
    let with_tenants = || cases.iter().filter(|case| !case.tenants.is_empty());
    if with_tenants().next().is_none() {
        return out;
    }
    let mut known: HashSet<Sha256> = cases.iter().map(|case| case_key(case)).collect();
    for case in with_tenants() {
        let idle = Case {
            condition: Condition::idle(),
            tenants: Vec::new(),
            ..(*case).clone()
        };
        let alone = case.tenants.iter().map(|tenant| case.alone(tenant));
        for baseline in std::iter::once(idle).chain(alone) {
            if known.insert(case_key(&baseline)) {
                out.push(baseline);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::case::Scenario;
    use proptest::prelude::*;

    use super::super::axes::match_key;
    use super::super::fixed::tests::case;
    use super::*;

    fn canonical(text: &str) -> String {
        TenantTerm::parse(text).unwrap().to_string()
    }

    #[test]
    fn a_tenant_has_one_form() {
        for (text, form) in [
            ("model:b.onnx:cpu3", "model:b.onnx:cpu3"),
            ("model:b.onnx@10Hz:cpu3", "model:b.onnx@10Hz:cpu3"),
            ("model:b.onnx@ 2.50 Hz:cpu3,2", "model:b.onnx@2.5Hz:cpu2-3"),
            ("model:nets/b.onnx@30Hz:cpu1", "model:nets/b.onnx@30Hz:cpu1"),
            ("model:odd@name:x.onnx:cpu1", "model:odd@name:x.onnx:cpu1"),
            (
                "model:b.onnx:cpu1/option.z=1/backend=rten/option.a=2/threads=4",
                "model:b.onnx:cpu1/threads=4/backend=rten/option.a=2/option.z=1",
            ),
            (
                "model:b:cpu1/option.a=1/option.a=2",
                "model:b:cpu1/option.a=2",
            ),
        ] {
            assert_eq!(canonical(text), form, "{text}");
            assert_eq!(canonical(form), form);
        }
        let rate = |text: &str| TenantTerm::parse(text).unwrap().millihertz;
        assert_eq!(rate("model:b@0.5Hz:cpu1"), Some(500));
    }

    #[test]
    fn what_makes_no_tenant_says_what_would() {
        for (text, says) in [
            ("model:b.onnx", "CPUs are needed"),
            ("model::cpu1", "a model is needed"),
            ("model:b.onnx:cpux", "no list of CPUs"),
            ("model:b.onnx@0Hz:cpu1", "0.01Hz"),
            ("model:b.onnx@fastHz:cpu1", "no rate"),
            ("model:b.onnx:cpu1/loud", "/loud"),
            ("model:b.onnx:cpu1/threads=0", "threads"),
            ("model:b.onnx:cpu1/option.=1", "option.KEY"),
            ("model:b.onnx:cpu1/backend=", "no value"),
        ] {
            let why = TenantTerm::parse(text).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }

    fn tenant(sha256: u8) -> Tenant {
        let model = ModelRef {
            name: "b.onnx".into(),
            sha256: Sha256([sha256; 32]),
        };
        let term = TenantTerm::parse("model:b.onnx@10Hz:cpu2-3").unwrap();
        term.resolved(model, "fake", None)
    }

    fn beside(tenants: Vec<Tenant>) -> Case {
        Case {
            condition: Condition("model:b.onnx@10Hz:cpu2-3".into()),
            tenants,
            ..case(1)
        }
    }

    #[test]
    fn what_a_tenant_holds_is_in_the_key_and_not_in_the_match_key() {
        let (one, other) = (beside(vec![tenant(1)]), beside(vec![tenant(2)]));
        assert_eq!(match_key(&one), match_key(&other));
        assert_ne!(case_key(&one), case_key(&other));
        assert_ne!(match_key(&one), match_key(&case(1)));
    }

    #[test]
    fn each_model_is_measured_alone_once() {
        let (one, mixed) = (beside(vec![tenant(1)]), beside(vec![tenant(1), tenant(2)]));
        let found = baselines([&one, &mixed]);
        assert_eq!(found.len(), 3);
        assert_eq!(found[0], case(1));
        let alone = &found[1];
        assert_eq!(alone.scenario, Scenario::Rate { millihertz: 10_000 });
        assert_eq!(
            (alone.threads.intra, alone.cpus.clone()),
            (2, Some(vec![2, 3]))
        );
        assert!(alone.tenants.is_empty() && alone.condition == Condition::idle());
        let all: Vec<Case> = [vec![one, mixed], found].concat();
        assert!(
            baselines(&all).is_empty(),
            "what is there is not added again"
        );
        assert!(baselines([&case(1)]).is_empty());
    }

    proptest! {
        #[test]
        fn nothing_written_makes_it_panic(text in "model:\\PC*") {
            let _ = TenantTerm::parse(&text);
        }

        #[test]
        fn the_canonical_form_reads_as_itself(
            model in "[a-z][a-z@:/.]{0,12}", cpu in 0_u16..64, rate in proptest::option::of(10_u64..100_000_000),
            threads in proptest::option::of(1_u32..9), option in proptest::option::of("[a-z0-9]{1,5}"),
        ) {
            let term = TenantTerm {
                model,
                cpus: vec![cpu],
                millihertz: rate,
                threads,
                backend: None,
                runtime: None,
                options: option.map(|value| ("key".to_owned(), value)).into_iter().collect(),
            };
            // A name that ends as a rate does would read as one.
            prop_assume!(!term.model.contains("hz") && !term.model.contains(":cpu"));
            prop_assert_eq!(TenantTerm::parse(&term.to_string()), Ok(term));
        }
    }
}
