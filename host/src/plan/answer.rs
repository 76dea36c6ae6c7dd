//! What a search came to: the best case whose conditions hold, and what it would take to be sure.

use edgedyno_shared::ids::Sha256;

use super::figures::CaseFigures;
use super::goal::{Goal, Judgement};

/// The answer to a goal.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// The best of the cases whose conditions hold by their bounds, and its objective.
    pub best: Option<(Sha256, f64)>,
    /// Cases that may be better: their conditions are not decided, or they are too close to tell.
    pub contenders: Vec<Contender>,
    /// Cases that were measured and whose conditions surely fail.
    pub failing: usize,
}

/// A case that more measurement might make the best.
#[derive(Debug, Clone, PartialEq)]
pub struct Contender {
    pub case: Sha256,
    /// The objective's value.
    pub value: f64,
    /// What it would take to know.
    pub needs: String,
}

/// Judges cases by what was measured of them.
pub fn answer(goal: &Goal, cases: &[(Sha256, CaseFigures)]) -> Answer {
    let value = |figures: &CaseFigures| goal.objective.value(figures);
    let holds = |figures: &CaseFigures| goal.judge(figures) == Judgement::Holds;
    let scored = cases
        .iter()
        .filter_map(|(key, f)| Some((*key, f, goal.score(f)?)));
    let mut scored: Vec<(Sha256, &CaseFigures, f64)> = scored.collect();
    scored.sort_by(|a, b| b.2.total_cmp(&a.2));
    let best = scored.iter().find(|(_, figures, _)| holds(figures));
    let fails = |figures: &&CaseFigures| goal.judge(figures) == Judgement::Fails;
    let failing = scored.iter().map(|(_, figures, _)| *figures).filter(fails);
    let failing = failing.count();
    let mut contenders = Vec::new();
    for (key, figures, score) in &scored {
        let Some(value) = value(figures) else {
            continue;
        };
        let needs = match (goal.judge(figures), best) {
            (Judgement::Fails, _) => continue,
            (_, Some((winner, ..))) if winner == key => continue,
            (Judgement::Undecided(why), Some((.., winning))) if score > winning => why,
            (Judgement::Undecided(why), None) => why,
            (Judgement::Holds, Some((_, winner, _))) if is_close(goal, winner, figures) => {
                "it is not told apart from the best: more repeats would tell".into()
            }
            _ => continue,
        };
        let case = *key;
        contenders.push(Contender { case, value, needs });
    }
    Answer {
        best: best.and_then(|(key, figures, _)| Some((*key, value(figures)?))),
        contenders,
        failing,
    }
}

/// Whether the intervals of two objectives overlap; without intervals nobody knows.
fn is_close(goal: &Goal, winner: &CaseFigures, other: &CaseFigures) -> bool {
    match (goal.span(winner), goal.span(other)) {
        (Some((low, _)), Some((_, high))) => high >= low,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::super::goal::tests::figures;
    use super::*;

    fn key(n: u8) -> Sha256 {
        Sha256([n; 32])
    }

    fn goal() -> Goal {
        Goal::parse("max rate where p99 <= 33ms").unwrap()
    }

    #[test]
    fn the_fastest_case_counts_only_when_its_bound_holds() {
        let cases = [
            (key(1), figures(&[100.0, 101.0, 100.5], 30.0, Some(32.0))),
            (key(2), figures(&[150.0, 151.0, 150.5], 31.0, Some(40.0))),
            (key(3), figures(&[200.0, 201.0, 200.5], 50.0, Some(55.0))),
        ];
        let found = answer(&goal(), &cases);
        assert_eq!(found.best.map(|(case, _)| case), Some(key(1)));
        let contenders: Vec<Sha256> = found.contenders.iter().map(|c| c.case).collect();
        assert_eq!(contenders, [key(2)]);
        assert!(found.contenders[0].needs.contains("more trials"));
        assert_eq!(found.failing, 1);
    }

    #[test]
    fn nothing_holds_without_a_bound_and_it_says_what_it_takes() {
        let cases = [(key(1), figures(&[100.0, 101.0], 30.0, None))];
        let found = answer(&goal(), &cases);
        assert_eq!(found.best, None);
        assert!(found.contenders[0].needs.contains("of the 662"));
    }

    #[test]
    fn cases_too_close_to_tell_are_named() {
        let near = |rate: f64| figures(&[rate, rate + 5.0, rate - 5.0], 30.0, Some(31.0));
        let cases = [
            (key(1), near(100.0)),
            (key(2), near(101.0)),
            (key(3), near(50.0)),
        ];
        let found = answer(&goal(), &cases);
        assert_eq!(found.best.map(|(case, _)| case), Some(key(2)));
        let contenders: Vec<Sha256> = found.contenders.iter().map(|c| c.case).collect();
        assert_eq!(contenders, [key(1)]);
    }
}
