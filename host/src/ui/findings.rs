//! Findings for the terminal: one row a kind, with the worst few of it.

use super::table::Table;
use crate::findings::kinds::{Kind, Told, kinds};
use crate::summary::CaseSummary;

/// Findings of one case but those that another section has told in full; nothing where there are none.
pub(super) fn of_case(summary: &CaseSummary, every: bool) -> Option<String> {
    let untold = summary.findings.iter();
    let untold = untold.filter(|finding| finding.code != "failed_repeat");
    table(&kinds(untold.map(|finding| ("", finding))), every)
}

/// Every finding of several cases, each with the keys of those that have it.
pub fn of_cases(cases: &[CaseSummary]) -> Option<String> {
    let keys: Vec<String> = cases
        .iter()
        .map(|case| case.key.to_string()[..8].to_owned())
        .collect();
    let found = keys.iter().zip(cases);
    let found = found.flat_map(|(key, case)| {
        let findings = case.findings.iter();
        findings.map(move |finding| (key.as_str(), finding))
    });
    table(&kinds(found), true)
}

fn table(kinds: &[Kind<'_>], every: bool) -> Option<String> {
    let mut table = Table::new().text("finding").text("").text("");
    for kind in kinds {
        let (level, code) = (kind.level.name().to_owned(), kind.code.to_owned());
        table.row([level, code, words(kind, every)]);
    }
    (!kinds.is_empty()).then(|| table.render())
}

fn words(kind: &Kind<'_>, every: bool) -> String {
    if every {
        let lines: Vec<String> = kind.told.iter().map(line).collect();
        return lines.join("\n");
    }
    let (first, folded) = kind.split();
    let heading = kind.heading().into_iter();
    let more = match folded.len() {
        0 => None,
        n => Some(format!("{n} more; `summary --findings` lists all")),
    };
    let lines: Vec<String> = heading.chain(first.iter().map(line)).chain(more).collect();
    lines.join("\n")
}

fn line(told: &Told<'_>) -> String {
    match told.cases.as_slice() {
        // The case is known.
        [""] => told.text.clone(),
        cases => format!("{} ({})", told.text, cases.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::{eleven, summary_of};

    /// A summary with so many findings of one kind, each of another repeat.
    fn found(count: u32) -> CaseSummary {
        let mut summary = summary_of(&[eleven(), eleven()]);
        let sample = summary.findings[0].clone();
        let of = |repeat| {
            let mut finding = sample.clone();
            finding.repeat = Some(repeat);
            finding.text = format!("words of {repeat}");
            finding
        };
        summary.findings = (0..count).map(of).collect();
        summary
    }

    #[test]
    fn a_kind_is_one_row_and_every_one_of_it_is_told_on_request() {
        let summary = found(5);
        let told = of_case(&summary, false).unwrap();
        let code = summary.findings[0].code;
        assert_eq!(told.matches(code).count(), 1, "{told}");
        for words in [
            "in 5 repeats, the first:",
            "repeat 0: words of 0",
            "repeat 2: words of 2",
            "2 more; `summary --findings` lists all",
        ] {
            assert!(told.contains(words), "no {words:?} in {told}");
        }
        assert!(!told.contains("words of 3"), "{told}");

        let every = of_case(&summary, true).unwrap();
        assert_eq!(every.matches("words of").count(), 5, "{every}");
        assert!(!every.contains("more;"), "{every}");
    }

    #[test]
    fn few_findings_are_told_as_they_are() {
        let told = of_case(&found(2), false).unwrap();
        assert_eq!(told.matches("words of").count(), 2, "{told}");
        assert!(!told.contains("the first"), "{told}");
        assert_eq!(of_case(&found(0), false), None);
    }

    #[test]
    fn several_cases_are_named_beside_what_they_have() {
        let cases = [found(1), found(1)];
        let told = of_cases(&cases).unwrap();
        let key = &cases[0].key.to_string()[..8];
        assert!(
            told.contains(&format!("repeat 0: words of 0 ({key})")),
            "{told}"
        );
    }
}
