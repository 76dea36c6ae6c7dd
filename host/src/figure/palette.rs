//! One palette for all figures: eight colours that readers with any kind of colour vision tell apart, and
//! that stand out from light and dark paper alike.
//!
//! Okabe and Ito, *Color Universal Design* (2008), with yellow and black left out, which vanish on white and
//! on black. Series also differ by their marks or their labels: colour alone says nothing.

use super::svg::Ink;

/// Series in the order in which they are given out.
pub(super) const SERIES: [Ink; 6] = [
    ink("s0", "#0072b2"),
    ink("s1", "#d55e00"),
    ink("s2", "#009e73"),
    ink("s3", "#cc79a7"),
    ink("s4", "#e69f00"),
    ink("s5", "#56b4e9"),
];

pub(super) const TEXT: Ink = ink("ink", "#1f2328");
pub(super) const QUIET: Ink = ink("quiet", "#59636e");
pub(super) const GRID: Ink = ink("grid", "#d8dee4");
pub(super) const AXIS: Ink = ink("axis", "#59636e");
pub(super) const PAPER: Ink = ink("paper", "#ffffff");
/// What a reader must not overlook: outliers, invalid points.
pub(super) const ALARM: Ink = ink("alarm", "#b3261e");

const fn ink(class: &'static str, colour: &'static str) -> Ink {
    Ink { class, colour }
}

/// The colour of series number `at`.
pub(super) fn series(at: usize) -> Ink {
    SERIES[at % SERIES.len()]
}

/// Steps of a heat map from low to high: one hue from light to dark, so that order shows without colour.
pub(super) const HEAT: [Ink; 7] = [
    ink("h0", "#eff3ff"),
    ink("h1", "#c6dbef"),
    ink("h2", "#9ecae1"),
    ink("h3", "#6baed6"),
    ink("h4", "#4292c6"),
    ink("h5", "#2171b5"),
    ink("h6", "#084594"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn luminance(colour: &str) -> f64 {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    /// WCAG 2.1: 4.5 for text.
    #[test]
    fn text_stands_out_from_paper() {
        let contrast = |a: &str, b: &str| {
            let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
            a.max(b) / a.min(b)
        };
        for ink in [TEXT, QUIET, ALARM] {
            let found = contrast(ink.colour, PAPER.colour);
            assert!(found >= 4.5, "{}: {found}", ink.colour);
        }
    }

    #[test]
    fn heat_grows_darker_step_by_step() {
        assert!(
            HEAT.windows(2)
                .all(|pair| luminance(pair[0].colour) > luminance(pair[1].colour))
        );
    }
}
