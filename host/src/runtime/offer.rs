//! The offer to fetch an ONNX Runtime, made once, where one would be used and none is found.

use edgedyno_shared::device::{DeviceInfo, RuntimeVerdict};

use super::cache::Cache;
use super::error::RuntimeError;
use super::install::{Installer, Outcome};
use super::spec::Spec;
use super::usual_download;
use crate::board::local;

/// The runtime that is offered.
pub const OFFERED: &str = "onnxruntime";

/// What a command is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occasion<'a> {
    pub board: &'a str,
    /// A backend or a library was named: then nothing is chosen for the user.
    pub is_chosen: bool,
    pub is_onnx: bool,
}

/// Whether something may be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// Nothing: `--offline`, a dry run, or nobody there to ask.
    Never,
    /// Ask first.
    Ask,
    /// `--yes`, or a command whose point it is.
    Given,
}

impl Consent {
    /// What flags and surroundings come to, for a command that asks first.
    pub fn of(yes: bool, may_fetch: bool, is_terminal: bool) -> Self {
        match (may_fetch, yes, is_terminal) {
            (false, ..) => Self::Never,
            (true, true, _) => Self::Given,
            (true, false, true) => Self::Ask,
            (true, false, false) => Self::Never,
        }
    }
}

/// What the command talks to the user with.
pub trait Conversation {
    /// A yes-or-no question; no when nobody answers.
    fn asks(&mut self, question: &str) -> bool;

    /// Fetches and installs, showing how it goes on.
    fn fetches(&mut self, installer: &Installer, spec: &Spec) -> Result<Outcome, RuntimeError>;
}

/// What became of the offer.
#[derive(Debug)]
pub enum Offered {
    /// There was no reason for one.
    NotNeeded,
    /// It was fetched: the board has to be asked again what it has.
    Fetched(Outcome),
    /// It was not; the reason, unless it is the user's own will.
    Not(Option<RuntimeError>),
}

/// Offers to fetch an ONNX Runtime when this machine has none that can be used.
///
/// A "no" is remembered, so that the question comes once; a failure is no reason not to measure.
pub fn runtime_offer(
    device: &DeviceInfo,
    occasion: Occasion<'_>,
    consent: Consent,
    installer: &Installer,
    with: &mut impl Conversation,
) -> Offered {
    if !is_needed(device, occasion) {
        return Offered::NotNeeded;
    }
    match consent {
        Consent::Never => return Offered::Not(None),
        Consent::Ask if installer.cache.is_declined(OFFERED) => return Offered::Not(None),
        Consent::Ask | Consent::Given => {}
    }
    if !installer.has_pip() {
        return Offered::Not(Some(RuntimeError::NoPip {
            program: installer.python.clone(),
        }));
    }
    if consent == Consent::Ask && !with.asks(&question(installer)) {
        remember_no(&installer.cache);
        return Offered::Not(None);
    }
    match with.fetches(installer, &Spec::any(OFFERED)) {
        Ok(outcome) => Offered::Fetched(outcome),
        Err(why) => Offered::Not(Some(why)),
    }
}

/// Whether a board has the backend for it and no library that can be used.
fn is_needed(device: &DeviceInfo, occasion: Occasion<'_>) -> bool {
    let is_usable = |verdict: &RuntimeVerdict| matches!(verdict, RuntimeVerdict::Usable(_));
    let backend = device.backends.iter().find(|b| b.name == OFFERED);
    let lacks_one =
        backend.is_some_and(|b| !b.runtimes.iter().any(|found| is_usable(&found.verdict)));
    lacks_one && occasion.board == local::NAME && !occasion.is_chosen && occasion.is_onnx
}

fn question(installer: &Installer) -> String {
    format!(
        "No ONNX Runtime is found. Fetch {} with pip into {}?",
        what_is_fetched(&installer.architecture),
        installer.cache.runtimes().display()
    )
}

/// `onnxruntime (about 28 MB)`, in the unit that pip counts in.
pub fn what_is_fetched(architecture: &str) -> String {
    match usual_download(architecture) {
        Some(bytes) => format!("{OFFERED} (about {} MB)", bytes.div_ceil(1_000_000)),
        None => format!("{OFFERED} (its size is not known for {architecture})"),
    }
}

fn remember_no(cache: &Cache) {
    // Asked again next time is all that a failure means.
    if let Err(why) = cache.decline(OFFERED) {
        tracing::info!("the answer cannot be kept: {why}");
    }
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::device::{BackendInfo, RuntimeFacts, RuntimeFound};
    use edgedyno_shared::ids::{BootId, BuildId, Sha256};

    use super::*;

    const RUN: Occasion<'_> = Occasion {
        board: local::NAME,
        is_chosen: false,
        is_onnx: true,
    };

    fn device(verdicts: Vec<RuntimeVerdict>) -> DeviceInfo {
        let runtimes = verdicts.into_iter().map(|verdict| RuntimeFound {
            path: "/x.so".into(),
            origin: "test".into(),
            verdict,
        });
        DeviceInfo {
            agent_version: String::new(),
            build: BuildId(String::new()),
            boot: BootId(1),
            os: "linux".into(),
            arch: "x86_64".into(),
            cpus: Vec::new(),
            allowed_cpus: vec![0],
            memory_total: None,
            readiness: edgedyno_shared::device::Readiness::default(),
            facts: Vec::new(),
            backends: vec![BackendInfo {
                name: OFFERED.into(),
                summary: String::new(),
                simulated: false,
                built_in: false,
                formats: vec!["onnx".into()],
                version: None,
                runtimes: runtimes.collect(),
            }],
        }
    }

    fn usable() -> RuntimeVerdict {
        RuntimeVerdict::Usable(RuntimeFacts {
            version: "1.32.0".into(),
            sha256: Some(Sha256([1; 32])),
            build: None,
            build_id: None,
            providers: Vec::new(),
        })
    }

    fn refused() -> RuntimeVerdict {
        RuntimeVerdict::Refused {
            code: "x".into(),
            reason: "x".into(),
            hint: String::new(),
        }
    }

    /// Says what it was told to say, and keeps what it was asked.
    #[derive(Default)]
    struct Scripted {
        says_yes: bool,
        asked: Vec<String>,
        fetched: Vec<String>,
    }

    impl Conversation for Scripted {
        fn asks(&mut self, question: &str) -> bool {
            self.asked.push(question.to_owned());
            self.says_yes
        }

        fn fetches(&mut self, _: &Installer, spec: &Spec) -> Result<Outcome, RuntimeError> {
            self.fetched.push(spec.to_string());
            Err(RuntimeError::Pip {
                spec: spec.to_string(),
                detail: "no network".into(),
            })
        }
    }

    #[test]
    fn consent_needs_a_yes_or_somebody_to_ask() {
        assert_eq!(Consent::of(true, false, true), Consent::Never);
        assert_eq!(Consent::of(true, true, false), Consent::Given);
        assert_eq!(Consent::of(false, true, true), Consent::Ask);
        assert_eq!(Consent::of(false, true, false), Consent::Never);
    }

    /// `true` ends well whatever it is asked, like an interpreter with a pip.
    fn installer(folder: &std::path::Path, python: &str) -> Installer {
        Installer {
            cache: Cache::at(folder.into()),
            architecture: "x86_64".into(),
            python: python.into(),
            platforms: Vec::new(),
        }
    }

    #[test]
    fn a_board_that_has_one_is_offered_none() {
        let folder = tempfile::tempdir().unwrap();
        let mut user = Scripted::default();
        let mut offer = |device: &DeviceInfo, occasion| {
            let installer = installer(folder.path(), "true");
            let offered = runtime_offer(device, occasion, Consent::Ask, &installer, &mut user);
            matches!(offered, Offered::NotNeeded)
        };
        assert!(offer(&device(vec![refused(), usable()]), RUN));
        let none = device(vec![refused()]);
        assert!(offer(
            &none,
            Occasion {
                is_chosen: true,
                ..RUN
            }
        ));
        assert!(offer(
            &none,
            Occasion {
                is_onnx: false,
                ..RUN
            }
        ));
        assert!(offer(
            &none,
            Occasion {
                board: "s100",
                ..RUN
            }
        ));
        let mut without_backend = none.clone();
        without_backend.backends.clear();
        assert!(offer(&without_backend, RUN));
        assert!(!offer(&none, RUN));
        assert_eq!(user.asked.len(), 1);
    }

    #[test]
    fn the_question_says_what_and_how_large_and_a_no_is_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let mut user = Scripted::default();
        for _ in 0..2 {
            let installer = installer(folder.path(), "true");
            let offered = runtime_offer(
                &device(Vec::new()),
                RUN,
                Consent::Ask,
                &installer,
                &mut user,
            );
            assert!(matches!(offered, Offered::Not(None)));
        }
        assert_eq!(user.asked.len(), 1);
        assert!(
            user.asked[0].contains("onnxruntime (about 28 MB)"),
            "{}",
            user.asked[0]
        );
        assert!(user.fetched.is_empty());
    }

    #[test]
    fn nothing_is_fetched_without_consent() {
        let folder = tempfile::tempdir().unwrap();
        let mut user = Scripted {
            says_yes: true,
            ..Scripted::default()
        };
        let installer = installer(folder.path(), "true");
        let offered = runtime_offer(
            &device(Vec::new()),
            RUN,
            Consent::Never,
            &installer,
            &mut user,
        );
        assert!(matches!(offered, Offered::Not(None)));
        assert!(user.asked.is_empty() && user.fetched.is_empty());
    }

    #[test]
    fn consent_fetches_without_a_question_and_a_failure_is_only_said() {
        let folder = tempfile::tempdir().unwrap();
        let mut user = Scripted::default();
        let installer = installer(folder.path(), "true");
        installer.cache.decline(OFFERED).unwrap();
        let offered = runtime_offer(
            &device(Vec::new()),
            RUN,
            Consent::Given,
            &installer,
            &mut user,
        );
        let Offered::Not(Some(reason)) = offered else {
            panic!("{offered:?}")
        };
        assert!(reason.to_string().contains("no network"), "{reason}");
        assert_eq!(
            (user.asked.len(), user.fetched.as_slice()),
            (0, &["onnxruntime".to_owned()][..])
        );
    }

    #[test]
    fn without_pip_the_package_to_install_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for python in ["false", "no-such-program"] {
            let installer = installer(folder.path(), python);
            let mut user = Scripted::default();
            let offered = runtime_offer(
                &device(Vec::new()),
                RUN,
                Consent::Ask,
                &installer,
                &mut user,
            );
            let Offered::Not(Some(reason)) = offered else {
                panic!("{offered:?}")
            };
            assert!(reason.hint().contains("python3-pip"), "{reason}");
            assert!(user.asked.is_empty());
        }
    }
}
