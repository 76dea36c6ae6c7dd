//! From a case to the configuration of a session.

use std::collections::BTreeMap;

use edgedyno_shared::case::Case;
use edgedyno_shared::repeat::Effective;
use edgedyno_shared::wire::failure::Failure;
use edgedyno_sys::vendor::onnxruntime::{
    ExecutionMode, GraphOptimization, Provider, SessionConfig,
};

use crate::backend::options::{Options, refused};

const BACKEND: &str = "onnxruntime";

/// Options of the provider: `provider.KEY=VALUE`.
pub(super) const PROVIDER_PREFIX: &str = "provider.";

const LEVELS: [(&str, GraphOptimization); 4] = [
    ("disable", GraphOptimization::Disabled),
    ("basic", GraphOptimization::Basic),
    ("extended", GraphOptimization::Extended),
    ("all", GraphOptimization::All),
];

const MODES: [(&str, ExecutionMode); 2] = [
    ("sequential", ExecutionMode::Sequential),
    ("parallel", ExecutionMode::Parallel),
];

/// The configuration that a case asks for, with values for the named dimensions.
///
/// # Errors
/// [`edgedyno_shared::wire::failure::FailureCode::OptionRefused`] for what no session has.
pub(super) fn session_config(
    case: &Case,
    dimensions: &BTreeMap<String, u64>,
) -> Result<SessionConfig, Failure> {
    check_case(case)?;
    let mut options = Options::new(BACKEND, &case.options);
    let optimization =
        options.choice("graph_optimization_level", &LEVELS, GraphOptimization::All)?;
    let execution = options.choice("execution_mode", &MODES, ExecutionMode::Sequential)?;
    let cpu_arena = options.switch("arena", true)?;
    let memory_pattern = options.switch("mem_pattern", true)?;
    let spinning = options.switch_if_given("allow_spinning")?;
    let providers = provider(&mut options, case)?;
    options.finish(|key| key.contains('.'))?;
    Ok(SessionConfig {
        // Never the runtime's own choice: with 0 it pins workers outside the process's CPU set (seen).
        intra_threads: Some(case.threads.intra),
        inter_threads: Some(case.threads.inter),
        optimization,
        execution,
        cpu_arena,
        memory_pattern,
        entries: entries(case, spinning),
        dimensions: dimensions
            .iter()
            .map(|(name, value)| (name.clone(), *value))
            .collect(),
        providers,
        ..SessionConfig::default()
    })
}

fn check_case(case: &Case) -> Result<(), Failure> {
    if case.threads.intra == 0 || case.threads.inter == 0 {
        return Err(refused(format!(
            "{BACKEND}: 0 threads would let the runtime choose, and pin them"
        )));
    }
    match &case.precision {
        None => Ok(()),
        Some(precision) => Err(refused(format!(
            "{BACKEND} has no precision to choose (asked for {precision})"
        ))
        .hint("a provider may have one: --option provider.KEY=VALUE")),
    }
}

/// The provider and its options; none for the CPU, which every session has.
fn provider(options: &mut Options<'_>, case: &Case) -> Result<Vec<Provider>, Failure> {
    let mine = case.options.iter().filter_map(|(key, value)| {
        Some((key.strip_prefix(PROVIDER_PREFIX)?.to_owned(), value.clone()))
    });
    let own: Vec<(String, String)> = mine.collect();
    let name = options.text("provider").filter(|name| !is_cpu(name));
    match (name, own.first()) {
        (Some(name), _) => Ok(vec![Provider {
            name: name.into(),
            options: own,
        }]),
        (None, None) => Ok(Vec::new()),
        (None, Some((key, _))) => Err(refused(format!(
            "{BACKEND}: option {PROVIDER_PREFIX}{key} needs provider=NAME, other than the CPU"
        ))),
    }
}

fn is_cpu(name: &str) -> bool {
    name.eq_ignore_ascii_case("cpu") || name.eq_ignore_ascii_case("CPUExecutionProvider")
}

/// Entries by their names in `onnxruntime_session_options_config_keys.h`: all have a dot.
fn entries(case: &Case, spinning: Option<bool>) -> Vec<(String, String)> {
    let spinning = spinning.into_iter().flat_map(|on| {
        let value = if on { "1" } else { "0" };
        [
            "session.intra_op.allow_spinning",
            "session.inter_op.allow_spinning",
        ]
        .map(|key| (key.to_owned(), value.to_owned()))
    });
    let dotted = |key: &str| key.contains('.') && !key.starts_with(PROVIDER_PREFIX);
    spinning
        .chain(case.options.iter().filter(|(key, _)| dotted(key)).cloned())
        .collect()
}

/// What was asked, with what was seen: the C interface has no way to read settings back.
pub(super) fn effective(
    case: &Case,
    config: &SessionConfig,
    threads_seen: Option<usize>,
) -> Vec<Effective> {
    let line = |name: &str, requested: String, observed: Option<String>| Effective {
        name: name.into(),
        requested: Some(requested),
        observed,
    };
    let word = |on: bool| if on { "on" } else { "off" }.to_owned();
    let name_of = |level| {
        LEVELS
            .iter()
            .find(|(_, l)| *l == level)
            .map_or("", |(name, _)| name)
    };
    let sequential = config.execution == ExecutionMode::Sequential;
    let mode = if sequential { "sequential" } else { "parallel" };
    // In sequential mode there are no threads between operators, whatever was asked.
    let inter = sequential.then(|| "1".to_owned());
    let provider = config.providers.first().map_or("cpu", |p| p.name.as_str());
    let mut lines = vec![
        line(
            "threads",
            case.threads.intra.to_string(),
            threads_seen.map(|n| n.to_string()),
        ),
        line("inter_threads", case.threads.inter.to_string(), inter),
        line(
            "graph_optimization_level",
            name_of(config.optimization).into(),
            None,
        ),
        line("execution_mode", mode.into(), None),
        line("arena", word(config.cpu_arena), None),
        line("mem_pattern", word(config.memory_pattern), None),
        line("provider", provider.into(), None),
    ];
    lines.extend(
        config
            .entries
            .iter()
            .map(|(key, value)| line(key, value.clone(), None)),
    );
    lines
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::wire::failure::FailureCode;

    use super::*;
    use crate::inputs::testing;

    fn case(options: &[(&str, &str)]) -> Case {
        let mut case = testing::job().order.case;
        case.options = options
            .iter()
            .map(|(k, v)| ((*k).into(), (*v).into()))
            .collect();
        case
    }

    fn config(options: &[(&str, &str)]) -> Result<SessionConfig, Failure> {
        session_config(&case(options), &BTreeMap::from([("batch".into(), 4)]))
    }

    fn pairs(list: &[(String, String)]) -> Vec<(&str, &str)> {
        list.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect()
    }

    #[test]
    fn a_plain_case_is_one_thread_and_full_optimisation() {
        let config = config(&[]).unwrap();
        let dimensions = vec![("batch".into(), 4)];
        let expected = SessionConfig {
            inter_threads: Some(1),
            dimensions,
            ..SessionConfig::default()
        };
        assert_eq!(config, expected);
    }

    #[test]
    fn options_reach_the_session() {
        let config = config(&[
            ("allow_spinning", "off"),
            ("arena", "off"),
            ("execution_mode", "parallel"),
            ("graph_optimization_level", "basic"),
            ("mem_pattern", "0"),
            ("provider", "XNNPACK"),
            ("provider.intra_op_num_threads", "2"),
            ("session.set_denormal_as_zero", "1"),
        ])
        .unwrap();
        assert_eq!(config.optimization, GraphOptimization::Basic);
        assert_eq!(config.execution, ExecutionMode::Parallel);
        assert!(!config.cpu_arena && !config.memory_pattern);
        assert_eq!(
            pairs(&config.entries),
            [
                ("session.intra_op.allow_spinning", "0"),
                ("session.inter_op.allow_spinning", "0"),
                ("session.set_denormal_as_zero", "1"),
            ]
        );
        assert_eq!(config.providers[0].name, "XNNPACK");
        assert_eq!(
            pairs(&config.providers[0].options),
            [("intra_op_num_threads", "2")]
        );
    }

    #[test]
    fn what_no_session_has_is_refused_with_what_there_is() {
        let failure = config(&[("allow_spining", "off")]).unwrap_err();
        assert_eq!(failure.code, FailureCode::OptionRefused);
        assert!(
            failure
                .hint
                .unwrap()
                .starts_with("did you mean `allow_spinning`?")
        );
        assert!(config(&[("graph_optimization_level", "99")]).is_err());
        assert!(config(&[("provider.device_id", "0")]).is_err());
        assert!(config(&[("provider", "CPU"), ("provider.device_id", "0")]).is_err());
    }

    #[test]
    fn zero_threads_and_a_precision_are_refused() {
        let mut zero = case(&[]);
        zero.threads.intra = 0;
        assert!(session_config(&zero, &BTreeMap::new()).is_err());
        let mut precise = case(&[]);
        precise.precision = Some("f16".into());
        assert!(session_config(&precise, &BTreeMap::new()).is_err());
    }

    #[test]
    fn asking_for_inter_threads_in_sequential_mode_shows_that_there_are_none() {
        let mut case = case(&[]);
        case.threads.inter = 2;
        let config = session_config(&case, &BTreeMap::new()).unwrap();
        let lines = effective(&case, &config, Some(1));
        let inter = lines.iter().find(|l| l.name == "inter_threads").unwrap();
        assert_eq!(
            (inter.requested.as_deref(), inter.observed.as_deref()),
            (Some("2"), Some("1"))
        );
    }
}
