//! From the first run to the last: cold, warm-up, and whether the window drifts.

use super::chart::{BELOW, Frame, LINE, SMALL, WIDTH, dash, heading, legend, say};
use super::decimate::Thin;
use super::palette::{AXIS, QUIET, series};
use super::scale::{Scale, time_unit};
use super::svg::{Anchor, Svg};
use super::{Figure, name_of};
use crate::stats::quantile;

const MOST_REPEATS: usize = 6;
const MOST_POINTS: usize = 800;

/// What one repeat was like from its first trial on, as far as it is drawn.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Life {
    pub repeat: u32,
    /// Number and nanoseconds of what came before the first measured trial, which has number 0.
    before: Vec<(f64, f64)>,
    /// Medians of stretches of the measured trials.
    within: Vec<(f64, f64)>,
    /// Measured trials of one stretch.
    every: usize,
    measured: usize,
}

/// Takes in the trials of a repeat one after the other, however many there are.
#[derive(Debug, Clone)]
pub struct Living {
    life: Life,
    before: Vec<f64>,
    stretch: Vec<f64>,
}

impl Living {
    /// `count` measured trials are to come.
    pub fn new(repeat: u32, count: usize) -> Self {
        let life = Life {
            repeat,
            every: count.div_ceil(MOST_POINTS / 2).max(1),
            ..Life::default()
        };
        Self {
            life,
            before: Vec::new(),
            stretch: Vec::new(),
        }
    }

    /// A trial that is not measured: cold, or of the warm-up.
    pub fn push_before(&mut self, ns: f64) {
        self.before.push(ns);
    }

    pub fn push_measured(&mut self, ns: f64) {
        self.life.measured += 1;
        self.stretch.push(ns);
        if self.stretch.len() == self.life.every {
            self.end_stretch();
        }
    }

    fn end_stretch(&mut self) {
        if let Some(median) = quantile::of(&self.stretch, 0.5) {
            let begin = self.life.measured - self.stretch.len();
            let middle = begin as f64 + self.stretch.len() as f64 / 2.0;
            self.life.within.push((middle, median));
        }
        self.stretch.clear();
    }

    pub fn finish(mut self) -> Life {
        self.end_stretch();
        let mut thin = Thin::new(self.before.len(), MOST_POINTS / 2);
        let first = -(self.before.len() as f64);
        let numbered = self.before.iter().zip(0_u32..);
        numbered.for_each(|(ns, i)| thin.push((first + f64::from(i), *ns)));
        Life {
            before: thin.finish(),
            ..self.life
        }
    }
}

impl Life {
    fn points(&self) -> impl Iterator<Item = &(f64, f64)> {
        self.before.iter().chain(&self.within)
    }
}

/// The lives of a case's repeats, from the first measured trial to the right of zero, what came before it to
/// the left; none where nothing ran.
pub fn warmup(label: &str, lives: &[Life]) -> Option<Figure> {
    let lives: Vec<&Life> = lives
        .iter()
        .filter(|l| l.points().next().is_some())
        .collect();
    let drawn = &lives[..lives.len().min(MOST_REPEATS)];
    let all = || {
        drawn
            .iter()
            .flat_map(|life| life.points().map(|(_, ns)| *ns))
    };
    let (unit, size) = time_unit(all().fold(0.0, f64::max));
    if drawn.is_empty() {
        return None;
    }
    let ends = drawn.iter().flat_map(|life| {
        let first = life.before.first().map_or(0.0, |(number, _)| *number);
        [first, life.measured as f64]
    });
    let values: Vec<f64> = all().map(|ns| ns / size).collect();
    let title = format!("Warm-up and drift: {label}");
    let mut svg = Svg::default();
    let names: Vec<_> = drawn
        .iter()
        .enumerate()
        .map(|(at, life)| (format!("repeat {}", life.repeat), series(at)))
        .collect();
    let top = heading(&mut svg, &title);
    let top = legend(&mut svg, top, &names);
    let frame = Frame::new(
        top + LINE,
        230.0,
        Scale::of(ends, true),
        Scale::fitting(&values),
    );
    frame.axes(
        &mut svg,
        "trials since measurement began (before zero: cold and warm-up)",
        &format!("latency in {unit}"),
    );
    let zero = frame.x(0.0);
    svg.line((zero, frame.top), (zero, frame.bottom()), AXIS, 1.5, "5 4");
    let at = (zero + 4.0, frame.top - 5.0);
    svg.text(at, Anchor::Start, SMALL, QUIET, "measured from here on");
    let mut smoothed = 0;
    svg.group("lives", |svg| {
        for (at, life) in drawn.iter().enumerate() {
            smoothed = smoothed.max(life.every);
            let place = |(x, ns): &(f64, f64)| (frame.x(*x), frame.y(ns / size));
            let points: Vec<(f64, f64)> = life.points().map(place).collect();
            svg.path(&points, series(at), 1.5, dash(at));
        }
    });
    let mut about =
        format!("Latency in {unit} of every trial from the first one on, a line for each repeat.");
    if smoothed > 1 {
        say(
            &mut about,
            format_args!(
                " After zero each point is the median of up to {smoothed} trials in a row."
            ),
        );
    }
    if lives.len() > drawn.len() {
        let (shown, all) = (drawn.len(), lives.len());
        say(
            &mut about,
            format_args!(" Of {all} repeats the first {shown} are drawn."),
        );
    }
    let name = name_of(&["warmup", label]);
    Some(Figure {
        svg: svg.finish(&name, (WIDTH, frame.bottom() + BELOW), &title, &about),
        name,
        title,
        about,
    })
}
