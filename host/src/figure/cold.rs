//! What happens before a model is warm: the stages of a fresh process, one bar for each case.

use super::stack::{Bar, Row, Words, stack, sum};
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

/// One bar a case; none where no stage was recorded.
pub fn cold(cases: &[Labelled<ColdStart>]) -> Option<Figure> {
    let parts = stages(&ColdStart::default()).map(|(name, _)| name.to_owned());
    let row = |case: &Labelled<ColdStart>| Row {
        label: case.label.clone(),
        of: Bar {
            parts: stages(&case.of).map(|(_, ns)| ns).to_vec(),
            // That of the tables. The stages drawn come to a little less: a geometric mean of sums is more than
            // the sum of geometric means (Mahler's inequality), the more the more repeats differ.
            total: case.of.total_ns,
        },
    };
    let words = Words {
        name: "cold",
        title: "From nothing to the first result",
        about: "Stages of a fresh process, from its start to the end of the first run; each is the geometric mean \
                over repeats. The figure at the end of a bar is the time to the first result as the tables have it, \
                the geometric mean of whole repeats: where repeats differ it is a little more than the stages come to. \
                A stage that a backend does not have or nobody recorded is not drawn, and a dash stands where no \
                first run was."
            .into(),
        parts: &parts,
    };
    stack(words, &cases.iter().map(row).collect::<Vec<_>>())
}
