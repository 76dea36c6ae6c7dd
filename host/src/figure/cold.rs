//! What happens before a model is warm: the stages of a fresh process, one bar for each case.

use super::stack::{Row, Words, stack};
use super::{Figure, Labelled};
use crate::summary::ColdStart;

/// Stages in the order they happen.
fn stages(cold: &ColdStart) -> [(&'static str, Option<f64>); 6] {
    [
        ("spawn and read", sum(&[cold.spawn_ns, cold.read_ns])),
        ("dlopen", cold.dlopen_ns),
        ("load", cold.load_ns),
        ("compile", cold.compile_ns),
        ("bind", cold.bind_ns),
        ("first run", cold.first_ns),
    ]
}

/// The sum of what is known; none where nothing is.
fn sum(parts: &[Option<f64>]) -> Option<f64> {
    parts.iter().copied().flatten().reduce(|a, b| a + b)
}

/// One bar a case; none where no stage was recorded.
pub fn cold(cases: &[Labelled<ColdStart>]) -> Option<Figure> {
    let parts = stages(&ColdStart::default()).map(|(name, _)| name.to_owned());
    let row = |case: &Labelled<ColdStart>| Row {
        label: case.label.clone(),
        of: stages(&case.of).map(|(_, ns)| ns).to_vec(),
    };
    let words = Words {
        name: "cold",
        title: "From nothing to the first result",
        about: "Stages of a fresh process, from its start to the end of the first run; geometric means over \
                repeats. A stage that a backend does not have or nobody recorded is not drawn."
            .into(),
        parts: &parts,
    };
    stack(words, &cases.iter().map(row).collect::<Vec<_>>())
}
