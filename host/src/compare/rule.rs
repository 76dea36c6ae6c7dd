//! Rules by which a difference is judged.

use crate::stats::bootstrap::{self, Bootstrap};
use crate::stats::discovery::{self, FALSE_DISCOVERIES};
use crate::stats::judge::{Judgement, judge};
use crate::stats::mean::{arithmetic, deviation, logarithms};
use crate::stats::ratio::{LogRatio, differences};
use crate::stats::session::SessionSpread;
use crate::stats::shift;

/// How arms were measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// In one run, taking turns: repeats are paired by round.
    Interleaved,
    /// At different times: repeats are two independent groups.
    Separate,
}

/// A rule of judgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    PairedT,
    WelchT,
    Bootstrap,
    /// Two standard errors of the difference of means, as many tools do.
    TwoSe,
    /// The same with population deviations, on the rate only, as libreyolo does.
    LibreYolo,
}

impl Rule {
    pub const ALL: [Self; 5] = [
        Self::PairedT,
        Self::WelchT,
        Self::Bootstrap,
        Self::TwoSe,
        Self::LibreYolo,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::PairedT => "paired-t",
            Self::WelchT => "welch-t",
            Self::Bootstrap => "bootstrap",
            Self::TwoSe => "2se",
            Self::LibreYolo => "libreyolo",
        }
    }

    /// The rule of a pairing, where none was asked for.
    pub const fn default_of(pairing: Pairing) -> Self {
        match pairing {
            Pairing::Interleaved => Self::PairedT,
            Pairing::Separate => Self::WelchT,
        }
    }

    /// The rule in a sentence, printed with every comparison.
    pub const fn text(self) -> &'static str {
        match self {
            Self::PairedT => "Student's t on logarithms of per-repeat figures, paired by round",
            Self::WelchT => "Welch's t on logarithms of per-repeat figures",
            Self::Bootstrap => "studentised bootstrap over repeats, on logarithms",
            Self::TwoSe => {
                "2 standard errors of the difference, sample deviations; no minimum effect"
            }
            Self::LibreYolo => {
                "2 standard errors of the difference, population deviations; no minimum effect"
            }
        }
    }

    /// Kept for comparing with what other tools say: no minimum effect, no correction for many.
    pub const fn is_for_parity(self) -> bool {
        matches!(self, Self::TwoSe | Self::LibreYolo)
    }
}

/// What repeats of two arms say of their ratio.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    law: Law,
    /// ln(B / A).
    pub point: f64,
    /// Deviation of one repeat of the ratio: of one pair, or of both arms together.
    pub spread: f64,
    /// Hodges–Lehmann estimate of ln(B / A).
    pub shift: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
enum Law {
    T(LogRatio),
    Drawn(Bootstrap),
    /// Half-width as a logarithm, the same at any level.
    TwoSe(f64),
}

/// Applies a rule to per-repeat figures; for an interleaved pairing they stand round by round.
///
/// `None` when the rule needs more repeats than there are, or a figure has no logarithm.
pub fn measure(rule: Rule, pairing: Pairing, a: &[f64], b: &[f64]) -> Option<Measured> {
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let (log_a, log_b) = (logarithms(a)?, logarithms(b)?);
    let in_pairs = match (rule, pairing) {
        (Rule::PairedT, _) | (Rule::Bootstrap, Pairing::Interleaved) => Some(differences(a, b)?),
        _ => None,
    };
    let spread = match &in_pairs {
        Some(pairs) => deviation(pairs)?,
        None => deviation(&log_a)?.hypot(deviation(&log_b)?),
    };
    let law = match (rule, &in_pairs) {
        (Rule::PairedT, _) => Law::T(LogRatio::paired(a, b)?),
        (Rule::WelchT, _) => Law::T(LogRatio::welch(a, b)?),
        (Rule::Bootstrap, Some(pairs)) => Law::Drawn(Bootstrap::paired(pairs)?),
        (Rule::Bootstrap, None) => Law::Drawn(Bootstrap::separate(&log_a, &log_b)?),
        (Rule::TwoSe | Rule::LibreYolo, _) => return two_se(rule, a, b, spread),
    };
    let point = match &law {
        Law::T(ratio) => ratio.point,
        Law::Drawn(bootstrap) => bootstrap.point,
        Law::TwoSe(_) => return None,
    };
    let shift = match &in_pairs {
        Some(pairs) => shift::of_pairs(pairs),
        None => shift::between(&log_a, &log_b),
    };
    Some(Measured {
        law,
        point,
        spread,
        shift,
    })
}

/// |b̄ − ā| against 2 √(s²ₐ/nₐ + s²ᵦ/nᵦ), carried over to logarithms so that the verdict is the same:
/// the interval excludes 0 exactly where the difference exceeds two standard errors.
fn two_se(rule: Rule, a: &[f64], b: &[f64], spread: f64) -> Option<Measured> {
    let variance_of_mean = |arm: &[f64]| {
        let n = arm.len() as f64;
        let sample = deviation(arm)?.powi(2);
        let kind = match rule {
            Rule::LibreYolo => sample * (n - 1.0) / n,
            _ => sample,
        };
        Some(kind / n)
    };
    let (mean_a, mean_b) = (arithmetic(a)?, arithmetic(b)?);
    // A difference of exactly two standard errors is not more than two: rounding must not make it so.
    let reach = 2.0 * (variance_of_mean(a)? + variance_of_mean(b)?).sqrt() * (1.0 + 1e-12);
    let point = (mean_b / mean_a).ln();
    let difference = (mean_b - mean_a).abs();
    // Scaled by the point itself, 0 is excluded as it is on the linear scale.
    let half = match difference > 0.0 {
        true => point.abs() * reach / difference,
        false => reach / mean_a,
    };
    Some(Measured {
        law: Law::TwoSe(half),
        point,
        spread,
        shift: None,
    })
}

impl Measured {
    pub fn half_width(&self, level: f64) -> Option<f64> {
        match &self.law {
            Law::T(ratio) => ratio.half_width(level),
            Law::Drawn(bootstrap) => bootstrap.half_width(level),
            Law::TwoSe(half) => Some(*half),
        }
    }

    pub fn p_value(&self) -> Option<f64> {
        match &self.law {
            Law::T(ratio) => ratio.p_value(),
            Law::Drawn(bootstrap) => Some(bootstrap.p_value()),
            Law::TwoSe(_) => None,
        }
    }

    /// Standard error of the point; none where the rule has its own.
    pub fn standard_error(&self) -> Option<f64> {
        match &self.law {
            Law::T(ratio) => Some(ratio.standard_error),
            Law::Drawn(bootstrap) => Some(bootstrap.standard_error),
            Law::TwoSe(_) => None,
        }
    }
}

/// One comparison to be decided together with others.
#[derive(Debug, Clone)]
pub struct Question<'a> {
    pub measured: &'a Measured,
    pub sessions: Option<SessionSpread>,
    pub min_effect: f64,
}

/// How it was decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    pub judgement: Judgement,
    /// Level of the interval; none for a rule without one.
    pub level: Option<f64>,
    /// Half-width of the interval of ln(B / A), the larger of the two below.
    pub half_width: f64,
    /// From the repeats alone.
    pub over_repeats: f64,
    /// From the spread between sessions, for arms measured separately.
    pub over_sessions: Option<f64>,
    pub p_value: Option<f64>,
}

/// Decides all questions of one comparison: Benjamini–Hochberg over their p-values, then each interval at
/// its level against its minimum effect. A question that has no answer stays without.
///
/// Where arms were measured separately the p-value is the larger of both, so that what is selected is
/// what the printed interval, the larger of both, excludes.
pub fn decide(questions: &[Option<Question<'_>>]) -> Vec<Option<Decision>> {
    let p_values: Vec<Option<f64>> = questions.iter().map(|q| q.as_ref()?.p_value()).collect();
    let known: Vec<f64> = p_values.iter().copied().flatten().collect();
    let selection = discovery::select(&known);
    let mut next = 0;
    let decide = |(question, p): (&Option<Question<'_>>, &Option<f64>)| {
        let index = p.map(|_| {
            next += 1;
            next - 1
        });
        question
            .as_ref()?
            .decide(index.map(|i| selection.level(i)), *p)
    };
    questions.iter().zip(&p_values).map(decide).collect()
}

impl Question<'_> {
    fn p_value(&self) -> Option<f64> {
        let own = self.measured.p_value()?;
        match &self.sessions {
            Some(sessions) => Some(own.max(sessions.p_value(self.measured.point)?)),
            None => Some(own),
        }
    }

    fn decide(&self, level: Option<f64>, p_value: Option<f64>) -> Option<Decision> {
        let at = level.unwrap_or(1.0 - FALSE_DISCOVERIES);
        let over_repeats = self.measured.half_width(at)?;
        let over_sessions = match &self.sessions {
            Some(sessions) => Some(sessions.half_width(at)?),
            None => None,
        };
        let half_width = over_sessions.map_or(over_repeats, |s| s.max(over_repeats));
        let point = self.measured.point;
        let judgement = match (level, point.abs() > half_width) {
            (Some(_), _) => judge(point, half_width, self.min_effect),
            (None, true) if point > 0.0 => Judgement::Larger,
            (None, true) => Judgement::Smaller,
            (None, false) => Judgement::Undecided,
        };
        Some(Decision {
            judgement,
            level,
            half_width,
            over_repeats,
            over_sessions,
            p_value,
        })
    }
}

/// Fewest repeats of an arm that a rule judges.
pub const fn fewest(rule: Rule) -> usize {
    match rule {
        Rule::Bootstrap => bootstrap::FEWEST,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parity_rules_match_the_reference() {
        // a 100 +- 2 (n 3), b 104 +- 2 (n 3), population: 2 SE = 3.27, significant; with the sample
        // deviation of the same trials (2.449) 2 SE = 4.0, not.
        let spread = 2.0 * 1.5_f64.sqrt();
        let arm = |mean: f64| [mean - spread, mean, mean + spread];
        let verdict = |rule| {
            let measured = measure(rule, Pairing::Separate, &arm(100.0), &arm(104.0)).unwrap();
            let question = Question {
                measured: &measured,
                sessions: None,
                min_effect: 0.03,
            };
            let decision = decide(&[Some(question)])[0].unwrap();
            assert_eq!(decision.level, None);
            // 2 SE as a share of the difference of 4.
            (
                decision.judgement,
                decision.half_width / measured.point * 4.0,
            )
        };
        let (judgement, reach) = verdict(Rule::LibreYolo);
        assert_eq!(judgement, Judgement::Larger);
        assert!((reach - 3.266).abs() < 1e-3, "{reach}");
        let (judgement, reach) = verdict(Rule::TwoSe);
        assert_eq!(judgement, Judgement::Undecided);
        assert!((reach - 4.0).abs() < 1e-9, "{reach}");
    }

    #[test]
    fn the_larger_of_both_intervals_is_carried() {
        let (a, b) = ([1.0, 1.001, 0.999], [1.02, 1.021, 1.019]);
        let measured = measure(Rule::WelchT, Pairing::Separate, &a, &b).unwrap();
        let ask = |sessions| {
            let question = Question {
                measured: &measured,
                sessions,
                min_effect: 0.01,
            };
            decide(&[Some(question)])[0].unwrap()
        };
        assert_eq!(ask(None).judgement, Judgement::Larger);
        let unknown = ask(Some(SessionSpread::Unknown { sessions: 1 }));
        assert_eq!(unknown.judgement, Judgement::Undecided);
        assert!((unknown.half_width - 1.03_f64.ln()).abs() < 1e-9);
        assert!(unknown.p_value.unwrap() > 0.05);
    }

    #[test]
    fn many_questions_are_decided_together() {
        // One clear difference among twenty of which one more is just below 5 % by itself.
        let arms: Vec<([f64; 4], [f64; 4])> = (0..20)
            .map(|i| {
                let wave = [1.0, 1.01, 0.99, 1.0];
                let shift = [1.2, 1.0135][usize::from(i > 0)];
                let b = wave.map(|x| if i < 2 { x * shift } else { x });
                (wave, b)
            })
            .collect();
        let measured: Vec<Measured> = arms
            .iter()
            .map(|(a, b)| measure(Rule::WelchT, Pairing::Separate, a, b).unwrap())
            .collect();
        let ask = |few: usize| {
            let questions: Vec<_> = measured[..few]
                .iter()
                .map(|measured| {
                    Some(Question {
                        measured,
                        sessions: None,
                        min_effect: 0.01,
                    })
                })
                .collect();
            decide(&questions)
        };
        let alone = ask(2);
        let (p, many) = (alone[1].unwrap().p_value.unwrap(), ask(20));
        assert!(p > 0.025 && p < 0.1, "{p}");
        assert_eq!(many[0].unwrap().judgement, Judgement::Larger);
        assert!((many[0].unwrap().level.unwrap() - (1.0 - 0.05 / 20.0)).abs() < 1e-12);
        assert_eq!(many[1].unwrap().judgement, Judgement::Undecided);
        assert_eq!(many[5].unwrap().level, Some(0.95));
    }

    #[test]
    fn a_rule_says_how_many_repeats_it_needs() {
        let nine = [1.0; 9];
        assert_eq!(
            measure(Rule::Bootstrap, Pairing::Separate, &nine, &nine),
            None
        );
        assert_eq!(
            measure(Rule::WelchT, Pairing::Separate, &[1.0], &nine),
            None
        );
        assert_eq!(fewest(Rule::Bootstrap), 10);
    }
}
