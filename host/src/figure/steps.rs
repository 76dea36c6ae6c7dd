//! Latency of each step of a stateful run, such as the tokens of a language model.

use super::chart::{BELOW, Frame, LINE, SMALL, WIDTH, heading, legend, say, say_left_out};
use super::decimate::min_max;
use super::palette::{QUIET, series};
use super::scale::{Scale, time_unit};
use super::svg::{Anchor, Svg};
use super::{Figure, Labelled};
use crate::ui::units;

/// Lines of one figure.
const MOST_CASES: usize = 6;
/// More steps are drawn by the lowest and highest of each stretch, and without their spread.
const MOST_STEPS: usize = 400;
/// Marks that have room beside each other.
const MOST_MARKS: usize = 60;

/// One step over the trials of a case, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    pub number: u32,
    pub p50: f64,
    pub p10: f64,
    pub p90: f64,
}

/// A line for each case, with the spread of each step over trials, of which one in `every` was looked at; none
/// where nobody told steps.
pub fn steps(cases: &[Labelled<Vec<Step>>], every: usize) -> Option<Figure> {
    let known: Vec<&Labelled<Vec<Step>>> = cases.iter().filter(|c| !c.of.is_empty()).collect();
    let drawn = &known[..known.len().min(MOST_CASES)];
    let all = || drawn.iter().flat_map(|case| &case.of);
    let (unit, size) = time_unit(all().map(|step| step.p90).reduce(f64::max)?);
    let values: Vec<f64> = all()
        .flat_map(|step| [step.p10 / size, step.p90 / size])
        .collect();
    let numbers = all().map(|step| f64::from(step.number));
    let title = "How long each step takes";
    let mut svg = Svg::default();
    let mut top = heading(&mut svg, title);
    if drawn.len() > 1 {
        let names = drawn.iter().enumerate();
        let names: Vec<_> = names
            .map(|(at, case)| (case.label.clone(), series(at)))
            .collect();
        top = legend(&mut svg, top, &names);
    }
    let frame = Frame::new(
        top + LINE,
        230.0,
        Scale::of(numbers, true),
        Scale::fitting(&values),
    );
    frame.axes(
        &mut svg,
        "step of the trial, the first one is 0",
        &format!("latency in {unit}"),
    );
    let longest = drawn.iter().map(|case| case.of.len()).max()?;
    let has_marks = longest <= MOST_MARKS;
    svg.group("steps", |svg| {
        for (at, case) in drawn.iter().enumerate() {
            line(svg, &frame, case, (at, size), has_marks);
        }
    });
    if drawn.len() == 1 {
        let at = (frame.left, frame.top - 5.0);
        svg.text(at, Anchor::Start, SMALL, QUIET, &drawn[0].label);
    }
    let mut about =
        format!("Medians of each step over the measured trials of up to six repeats, in {unit}.");
    match has_marks {
        true => about
            .push_str(" Thin lines reach from the tenth to the ninetieth percentile of the step."),
        false => say(
            &mut about,
            format_args!(
                " Of up to {longest} steps the lowest and highest of each stretch are drawn."
            ),
        ),
    }
    if every > 1 {
        say(
            &mut about,
            format_args!(" Of very many trials one in {every} was looked at."),
        );
    }
    say_left_out(&mut about, "cases", drawn.len(), known.len());
    Some(Figure {
        svg: svg.finish("steps", (WIDTH, frame.bottom() + BELOW), title, &about),
        name: "steps".into(),
        title: title.into(),
        about,
    })
}

fn line(
    svg: &mut Svg,
    frame: &Frame,
    case: &Labelled<Vec<Step>>,
    (number, size): (usize, f64),
    has_marks: bool,
) {
    let ink = series(number);
    let place = |step: &Step, ns: f64| (frame.x(f64::from(step.number)), frame.y(ns / size));
    let points: Vec<(f64, f64)> = case.of.iter().map(|step| place(step, step.p50)).collect();
    svg.path(
        &min_max(&points, MOST_STEPS),
        ink,
        1.5,
        super::chart::dash(number),
    );
    if !has_marks {
        return;
    }
    for step in &case.of {
        let [low, high] = [step.p10, step.p90].map(|ns| place(step, ns));
        svg.line(low, high, ink, 1.0, "");
        let about = format!(
            "{}: step {}, p50 {}, p10 {}, p90 {}",
            case.label,
            step.number,
            units::nanoseconds(step.p50),
            units::nanoseconds(step.p10),
            units::nanoseconds(step.p90)
        );
        svg.circle(place(step, step.p50), 3.0, ink, Some(&about));
    }
}
