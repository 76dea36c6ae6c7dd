//! What the statistics promise, held against series whose law is known: how often equal arms are called
//! different, how often an interval holds the truth, how often a bound does, how often a difference is
//! found. `cargo bench -p edgedyno-tests --bench proof` prints the tables of `docs/statistics.md`.

use std::fmt;

use edgedyno::compare::rule::{Measured, Pairing, Question, Rule, decide, measure};
use edgedyno::stats::autocorrelation::integrated_time;
use edgedyno::stats::judge::{Judgement, MIN_EFFECT_INTERLEAVED};
use edgedyno::stats::random::Random;
use edgedyno::stats::simulate::{ar1, white};
use edgedyno::stats::{interval, quantile, summary};

/// Trials of a simulated repeat.
const TRIALS: usize = 300;
/// Between fresh processes, as the logarithm's deviation: a CV of 1 %.
const BETWEEN: f64 = 0.01;
/// Between trials.
const WITHIN: f64 = 0.03;
/// The median of every simulated series, in nanoseconds.
const MEDIAN: f64 = 1e6;

/// One promise and what came out.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub promise: &'static str,
    pub what: String,
    pub hits: usize,
    pub experiments: usize,
    /// Series of which nothing was claimed; they are no experiments.
    pub unclaimed: usize,
    /// Least and greatest share that keeps the promise.
    pub allowed: (f64, f64),
    /// Standard errors that a share may lie beyond that, where the promise is about a probability and
    /// not about a number of hits.
    pub leave: f64,
}

impl Row {
    pub fn share(&self) -> f64 {
        self.hits as f64 / self.experiments as f64
    }

    /// So many standard errors of a share at the edge of what is allowed.
    pub fn slack(&self, errors: f64) -> f64 {
        let edge = [self.allowed.0, self.allowed.1]
            .into_iter()
            .map(|p| p * (1.0 - p))
            .fold(0.0, f64::max);
        errors * (edge / self.experiments as f64).sqrt()
    }

    pub fn is_kept(&self) -> bool {
        let slack = self.slack(self.leave);
        self.allowed.0 - slack <= self.share() && self.share() <= self.allowed.1 + slack
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let allowed = match self.allowed {
            (0.0, high) => format!("≤ {}", percent(high)),
            (low, 1.0) if self.leave > 0.0 => {
                format!("≥ {} − {} se", percent(low), self.leave)
            }
            (low, 1.0) => format!("≥ {}", percent(low)),
            (low, high) => format!("{} to {}", percent(low), percent(high)),
        };
        write!(
            f,
            "| {} | {} | {} of {}{} | {} | {allowed} | {} |",
            self.promise,
            self.what,
            self.hits,
            self.experiments,
            match self.unclaimed {
                0 => String::new(),
                none => format!(" ({none} without)"),
            },
            percent(self.share()),
            if self.is_kept() { "kept" } else { "NOT KEPT" }
        )
    }
}

/// The head of the table that rows make.
pub const HEAD: &str =
    "| promise | series | hits | share | promised | verdict |\n|---|---|--:|--:|--:|---|";

/// How a simulated board is noisy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Noise {
    White,
    /// Trials depend on each other, and so do the sessions around them.
    Ar1(f64),
    /// Slower by 10 % from the first round to the last.
    Drifting,
    /// Every repeat is in one of two states that lie 5 % apart, and a third of its trials too.
    Bimodal,
}

impl Noise {
    pub const ALL: [Self; 5] = [
        Self::White,
        Self::Ar1(0.5),
        Self::Ar1(0.9),
        Self::Drifting,
        Self::Bimodal,
    ];

    fn name(self) -> String {
        match self {
            Self::White => "white".into(),
            Self::Ar1(phi) => format!("AR(1) {phi}"),
            Self::Drifting => "drifting".into(),
            Self::Bimodal => "bimodal".into(),
        }
    }

    /// Trials of one repeat, at this share of the way through the run.
    fn repeat(self, way: f64, shift: f64, random: &mut Random) -> Vec<i64> {
        let seed = random.bits();
        let process = BETWEEN * random.normal();
        let (series, offset) = match self {
            Self::White => (white(TRIALS, seed), 0.0),
            Self::Ar1(phi) => (ar1(TRIALS, phi, seed), 0.0),
            Self::Drifting => (white(TRIALS, seed), 0.1 * way),
            Self::Bimodal => {
                let state = if random.uniform() < 0.5 { 0.05 } else { 0.0 };
                let mut series = white(TRIALS, seed);
                for trial in &mut series {
                    if random.uniform() < 1.0 / 3.0 {
                        *trial += 0.05 / WITHIN;
                    }
                }
                (series, state)
            }
        };
        let log = process + offset + shift;
        series
            .iter()
            .map(|z| (MEDIAN * (log + WITHIN * z).exp()) as i64)
            .collect()
    }
}

/// Medians of both arms, round by round; a coin decides which goes first.
fn medians(noise: Noise, repeats: usize, shift: f64, seed: u64) -> (Vec<f64>, Vec<f64>) {
    let mut random = Random::seeded(seed);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for round in 0..repeats {
        let b_first = random.below(2) == 1;
        for place in 0..2 {
            let way = (2 * round + place) as f64 / (2 * repeats) as f64;
            let is_b = (place == 0) == b_first;
            let trials = noise.repeat(way, if is_b { shift } else { 0.0 }, &mut random);
            let median = quantile::of(&trials, 0.5).unwrap_or_default();
            if is_b { b.push(median) } else { a.push(median) }
        }
    }
    (a, b)
}

fn judged(measured: &Measured) -> (Judgement, f64) {
    let question = Question {
        measured,
        sessions: None,
        min_effect: MIN_EFFECT_INTERLEAVED,
    };
    let decision = decide(&[Some(question)])[0];
    decision.map_or((Judgement::Undecided, 1.0), |decision| {
        (decision.judgement, decision.p_value.unwrap_or(1.0))
    })
}

/// Equal arms that are called different: by the test alone, and with the minimum effect.
pub fn false_alarms(experiments: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for noise in Noise::ALL {
        let (mut tests, mut verdicts) = (0, 0);
        for seed in 0..experiments as u64 {
            let (a, b) = medians(noise, 5, 0.0, seed);
            let Some(measured) = measure(Rule::PairedT, Pairing::Interleaved, &a, &b) else {
                continue;
            };
            let (judgement, p) = judged(&measured);
            tests += usize::from(p <= 0.05);
            verdicts += usize::from(is_difference(judgement));
        }
        let row = |what: String, hits| Row {
            promise: "A/A",
            what,
            hits,
            experiments,
            unclaimed: 0,
            allowed: (0.0, 0.067),
            leave: 0.0,
        };
        rows.push(row(format!("{}, test alone", noise.name()), tests));
        rows.push(row(format!("{}, verdict", noise.name()), verdicts));
    }
    rows
}

fn is_difference(judgement: Judgement) -> bool {
    matches!(judgement, Judgement::Larger | Judgement::Smaller)
}

/// 95 % intervals that hold the truth: of a median over repeats, and of a ratio of two arms.
pub fn coverage(experiments: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for repeats in [3, 5, 10] {
        let (mut of_median, mut of_ratio) = (0, 0);
        for seed in 0..experiments as u64 {
            let (a, b) = medians(Noise::White, repeats, 0.02, 7_000_000 + seed);
            let estimate = interval::over_repeats(&a, 0.95);
            of_median += usize::from(estimate.is_some_and(|e| e.low <= MEDIAN && MEDIAN <= e.high));
            let ratio = measure(Rule::PairedT, Pairing::Interleaved, &a, &b);
            let holds = |m: &Measured| Some((m.point - 0.02).abs() <= m.half_width(0.95)?);
            of_ratio += usize::from(ratio.as_ref().and_then(holds) == Some(true));
        }
        let row = |what: String, hits| Row {
            promise: "coverage of 95 %",
            what,
            hits,
            experiments,
            unclaimed: 0,
            allowed: (0.93, 0.97),
            leave: 0.0,
        };
        rows.push(row(format!("p50 over {repeats} repeats"), of_median));
        rows.push(row(format!("ratio over {repeats} pairs"), of_ratio));
    }
    rows
}

/// Bounds at 99 % that lie above the true percentile, after n was made n/τ.
///
/// Where the trials are worth too few independent ones, no bound is given and nothing is claimed: such a
/// series is no experiment, and the row counts it apart.
pub fn bounds(experiments: usize) -> Vec<Row> {
    const INDEPENDENT: (&str, f64) = ("independent", 0.0);
    const HALF: (&str, f64) = ("AR(1) 0.5", 0.5);
    const STRONG: (&str, f64) = ("AR(1) 0.9", 0.9);
    let rows = [
        // A probability of exactly 99 % is met by 99 % and some noise: the more series, the less of it.
        (INDEPENDENT, P90, 6_000, 10 * experiments, 0.99, 2.5),
        (INDEPENDENT, P99, 6_000, 10 * experiments, 0.99, 2.5),
        (HALF, P90, 6_000, experiments, 0.98, 0.0),
        (HALF, P99, 6_000, experiments, 0.98, 0.0),
        (STRONG, P90, 6_000, experiments, 0.98, 0.0),
        (STRONG, P99, 6_000, experiments, 0.98, 0.0),
        (STRONG, P99, 50_000, experiments, 0.98, 0.0),
    ];
    let row = |((name, phi), level, trials, series, least, leave): BoundRow| {
        let covered = (0..series as u64).map(|seed| level.is_covered(phi, trials, seed));
        let given: Vec<bool> = covered.flatten().collect();
        Row {
            promise: "bound at 99 %",
            what: format!("{name}, {} of {trials}", level.title()),
            hits: given.iter().filter(|holds| **holds).count(),
            experiments: given.len(),
            unclaimed: series - given.len(),
            allowed: (least, 1.0),
            leave,
        }
    };
    rows.map(row).into()
}

/// Series, percentile, trials, series made, least share, leave.
type BoundRow = ((&'static str, f64), Level, usize, usize, f64, f64);

/// A percentile, with the standard normal's.
#[derive(Debug, Clone, Copy)]
struct Level(f64, f64);

const P90: Level = Level(0.9, 1.281_551_565_5);
const P99: Level = Level(0.99, 2.326_347_874);

impl Level {
    fn title(self) -> String {
        format!("p{:.0}", self.0 * 100.0)
    }

    /// Whether the bound of a series lies above the truth; none where no bound is given.
    fn is_covered(self, phi: f64, trials: usize, seed: u64) -> Option<bool> {
        let trials: Vec<i64> = ar1(trials, phi, 40_000_000 + seed)
            .iter()
            .map(|z| (MEDIAN * (WITHIN * z).exp()).ceil() as i64)
            .collect();
        let truth = MEDIAN * (WITHIN * self.1).exp();
        let found = summary::over_repeats(&[&trials]).map(|found| found.quantiles());
        let bound = found.and_then(|all| all.iter().find(|(p, _)| *p == self.0)?.1.bound);
        bound.map(|bound| bound >= truth)
    }
}

/// Series whose dependence is beyond what the correction is good for, and that are marked so.
pub fn marks(experiments: usize) -> Vec<Row> {
    let row = |(phi, trials): (f64, usize)| {
        let is_marked = |seed: &u64| {
            let series = ar1(trials, phi, 90_000_000 + *seed);
            integrated_time(&series) > edgedyno::findings::CORRELATED
        };
        Row {
            promise: "mark `correlated`",
            what: format!("AR(1) {phi}, {trials} trials"),
            hits: (0..experiments as u64).filter(is_marked).count(),
            experiments,
            unclaimed: 0,
            allowed: (0.95, 1.0),
            leave: 0.0,
        }
    };
    [(0.91, 6_000), (0.95, 6_000), (0.98, 6_000), (0.99, 6_000)]
        .map(row)
        .into()
}

/// A shift of 2 % at a CV of 1 %, found with ten pairs.
pub fn power(experiments: usize) -> Vec<Row> {
    let found = |seed: &u64| {
        let (a, b) = medians(Noise::White, 10, 0.02_f64.ln_1p(), 20_000_000 + *seed);
        let measured = measure(Rule::PairedT, Pairing::Interleaved, &a, &b);
        measured.is_some_and(|measured| judged(&measured).0 == Judgement::Larger)
    };
    vec![Row {
        promise: "power",
        what: "2 % at CV 1 %, 10 pairs".into(),
        hits: (0..experiments as u64).filter(found).count(),
        experiments,
        unclaimed: 0,
        allowed: (0.9, 1.0),
        leave: 0.0,
    }]
}

/// All of it.
pub fn all(experiments: usize) -> Vec<Row> {
    [
        false_alarms(experiments),
        coverage(experiments),
        bounds(experiments),
        marks(experiments),
        power(experiments),
    ]
    .concat()
}
