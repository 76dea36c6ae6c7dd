//! What figures have in common: a frame with two axes, a legend, and rows with a name before them.

use super::palette::{AXIS, GRID, QUIET, TEXT};
use super::scale::Scale;
use super::svg::{Anchor, Ink, Svg};

/// Width of every figure; a page scales it.
pub(super) const WIDTH: f64 = 760.0;

pub(super) const SMALL: f64 = 12.0;
pub(super) const LARGE: f64 = 15.0;

/// A line of text.
pub(super) const LINE: f64 = 18.0;

/// Most characters of a name that stands before a row; the whole one is in its tooltip.
const LONGEST: usize = 24;
/// The same in a legend, where there is more room.
const LONGEST_IN_LEGEND: usize = 40;
/// Of a longer one so many stay at its begin; the end, where names differ, has the rest.
const BEGIN: usize = 8;

/// The part of a drawing in which data stand.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) x: Scale,
    pub(super) y: Scale,
}

impl Frame {
    pub(super) fn new(top: f64, height: f64, x: Scale, y: Scale) -> Self {
        Self {
            left: 76.0,
            top,
            width: WIDTH - 76.0 - 20.0,
            height,
            x,
            y,
        }
    }

    pub(super) fn x(&self, value: f64) -> f64 {
        self.x.place(value, self.left, self.left + self.width)
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        self.y.place(value, self.bottom(), self.top)
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// Grid, marks and both titles, which name quantity and unit.
    pub(super) fn axes(&self, svg: &mut Svg, x_title: &str, y_title: &str) {
        self.y_axis(svg, y_title);
        self.x_axis(svg, x_title);
    }

    pub(super) fn y_axis(&self, svg: &mut Svg, title: &str) {
        svg.group("y-axis", |svg| {
            for tick in &self.y.ticks {
                let y = self.y(*tick);
                svg.line((self.left, y), (self.left + self.width, y), GRID, 1.0, "");
                let at = (self.left - 8.0, y + 4.0);
                svg.text(at, Anchor::End, SMALL, QUIET, &self.y.label(*tick));
            }
            let at = (16.0, self.top + self.height / 2.0);
            svg.upward(at, SMALL, TEXT, &titled(title, &self.y));
        });
    }

    pub(super) fn x_axis(&self, svg: &mut Svg, title: &str) {
        svg.group("x-axis", |svg| {
            let bottom = self.bottom();
            for tick in &self.x.ticks {
                let x = self.x(*tick);
                svg.line((x, bottom), (x, bottom + 5.0), AXIS, 1.0, "");
                let at = (x, bottom + 18.0);
                svg.text(at, Anchor::Middle, SMALL, QUIET, &self.x.label(*tick));
            }
            svg.line(
                (self.left, bottom),
                (self.left + self.width, bottom),
                AXIS,
                1.0,
                "",
            );
            let at = (self.left + self.width / 2.0, bottom + 38.0);
            svg.text(at, Anchor::Middle, SMALL, TEXT, &titled(title, &self.x));
        });
    }
}

/// Room below a frame for the marks and the title of its axis.
pub(super) const BELOW: f64 = 48.0;

fn titled(title: &str, scale: &Scale) -> String {
    match scale.is_log {
        true => format!("{title}, logarithmic"),
        false => title.to_owned(),
    }
}

/// The title of a figure, at its top.
pub(super) fn heading(svg: &mut Svg, title: &str) -> f64 {
    svg.text((12.0, 22.0), Anchor::Start, LARGE, TEXT, title);
    36.0
}

/// Names of series behind their marks; returns where it ends.
pub(super) fn legend(svg: &mut Svg, top: f64, series: &[(String, Ink)]) -> f64 {
    let (mut x, mut y) = (12.0, top);
    svg.group("legend", |svg| {
        for (name, ink) in series {
            let shown = cut(name, LONGEST_IN_LEGEND);
            let width = 30.0 + 7.2 * shown.chars().count() as f64;
            if x + width > WIDTH - 8.0 && x > 12.0 {
                (x, y) = (12.0, y + LINE);
            }
            svg.rect((x, y), (12.0, 12.0), *ink, Some(name));
            svg.text((x + 18.0, y + 11.0), Anchor::Start, SMALL, TEXT, &shown);
            x += width;
        }
    });
    y + LINE + 6.0
}

/// Lines of one figure differ by their dashes as well as by their colours.
pub(super) fn dash(number: usize) -> &'static str {
    const DASHES: [&str; 6] = ["", "7 3", "2 3", "9 3 2 3", "12 4", "4 4"];
    DASHES[number % DASHES.len()]
}

/// Axes whose values say by themselves what they are.
const TELLING: [&str; 5] = ["backend", "board", "condition", "model", "runtime"];

/// A name that has room before a row.
pub(super) fn short(name: &str) -> String {
    cut(name, LONGEST)
}

/// A name of at most so many characters: without the axes that their values tell, and then, if it must be,
/// without its middle; that cut is shown.
fn cut(name: &str, longest: usize) -> String {
    if name.chars().count() <= longest {
        return name.to_owned();
    }
    let words = name.split(' ').map(|word| match word.split_once('=') {
        Some((axis, value)) if TELLING.contains(&axis) => value,
        _ => word,
    });
    let name = words.collect::<Vec<_>>().join(" ");
    let count = name.chars().count();
    if count <= longest {
        return name;
    }
    let begin: String = name.chars().take(BEGIN).collect();
    let end: String = name.chars().skip(count - (longest - BEGIN - 1)).collect();
    format!("{begin}…{end}")
}

/// Adds words to a text.
pub(super) fn say(text: &mut String, words: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = std::fmt::Write::write_fmt(text, words);
}

/// That not all of these are drawn, where it is so.
pub(super) fn say_left_out(text: &mut String, what: &str, shown: usize, all: usize) {
    if all > shown {
        say(
            text,
            format_args!(" Of {all} {what} the first {shown} are drawn."),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_loses_what_its_values_tell_before_it_loses_its_middle() {
        let name = "backend=onnxruntime runtime=1.32.0 threads=1";
        assert_eq!(cut(name, LONGEST_IN_LEGEND), "onnxruntime 1.32.0 threads=1");
        assert_eq!(short(name), "onnxrunt….32.0 threads=1");
        assert_eq!(short("backend=rten threads=1"), "backend=rten threads=1");
        assert_eq!(short(name).chars().count(), LONGEST);
    }
}
