//! Writing SVG: elements with attributes, text escaped, nothing that is not well-formed.

use std::fmt::Write as _;

/// A drawing under way.
#[derive(Debug, Clone, Default)]
pub(super) struct Svg {
    body: String,
}

/// Where a text is anchored at its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// What something is drawn with. A class lets a page choose other colours; the attribute is what holds
/// where no page does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ink {
    pub(super) class: &'static str,
    pub(super) colour: &'static str,
}

impl Svg {
    pub(super) fn rect(&mut self, at: (f64, f64), size: (f64, f64), ink: Ink, about: Option<&str>) {
        let attributes = format!(
            "x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" class=\"{}\" fill=\"{}\"",
            number(at.0),
            number(at.1),
            number(size.0.max(0.0)),
            number(size.1.max(0.0)),
            ink.class,
            ink.colour
        );
        self.element("rect", &attributes, about);
    }

    pub(super) fn circle(&mut self, at: (f64, f64), radius: f64, ink: Ink, about: Option<&str>) {
        let attributes = format!(
            "cx=\"{}\" cy=\"{}\" r=\"{}\" class=\"{}\" fill=\"{}\"",
            number(at.0),
            number(at.1),
            number(radius),
            ink.class,
            ink.colour
        );
        self.element("circle", &attributes, about);
    }

    pub(super) fn line(
        &mut self,
        from: (f64, f64),
        to: (f64, f64),
        ink: Ink,
        width: f64,
        dash: &str,
    ) {
        self.path(&[from, to], ink, width, dash);
    }

    /// A line through points.
    pub(super) fn path(&mut self, points: &[(f64, f64)], ink: Ink, width: f64, dash: &str) {
        let Some((first, rest)) = points.split_first() else {
            return;
        };
        let mut d = format!("M{} {}", number(first.0), number(first.1));
        for (x, y) in rest {
            // Writing to a string cannot fail.
            let _ = write!(d, "L{} {}", number(*x), number(*y));
        }
        let dash = match dash {
            "" => String::new(),
            dash => format!(" stroke-dasharray=\"{dash}\""),
        };
        let attributes = format!(
            "d=\"{d}\" class=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{dash}",
            ink.class,
            ink.colour,
            number(width)
        );
        self.element("path", &attributes, None);
    }

    pub(super) fn text(&mut self, at: (f64, f64), anchor: Anchor, size: f64, ink: Ink, text: &str) {
        self.words(at, anchor, size, ink, text, "");
    }

    /// A text that reads upward.
    pub(super) fn upward(&mut self, at: (f64, f64), size: f64, ink: Ink, text: &str) {
        let turn = format!(
            " transform=\"rotate(-90 {} {})\"",
            number(at.0),
            number(at.1)
        );
        self.words(at, Anchor::Middle, size, ink, text, &turn);
    }

    fn words(
        &mut self,
        at: (f64, f64),
        anchor: Anchor,
        size: f64,
        ink: Ink,
        text: &str,
        more: &str,
    ) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = writeln!(
            self.body,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\" font-size=\"{}\" class=\"{}\" fill=\"{}\"{more}>{}</text>",
            number(at.0),
            number(at.1),
            number(size),
            ink.class,
            ink.colour,
            escape(text)
        );
    }

    /// Everything drawn by `draw` as one group with a name for scripts and tests.
    pub(super) fn group(&mut self, class: &str, draw: impl FnOnce(&mut Self)) {
        let _ = writeln!(self.body, "<g class=\"{class}\">");
        draw(self);
        self.body.push_str("</g>\n");
    }

    fn element(&mut self, name: &str, attributes: &str, about: Option<&str>) {
        let _ = match about {
            // Browsers show it under the pointer, screen readers say it.
            Some(about) => writeln!(
                self.body,
                "<{name} {attributes}><title>{}</title></{name}>",
                escape(about)
            ),
            None => writeln!(self.body, "<{name} {attributes}/>"),
        };
    }

    /// The whole file.
    pub(super) fn finish(self, id: &str, size: (f64, f64), title: &str, about: &str) -> String {
        let (width, height) = (number(size.0), number(size.1));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\" aria-labelledby=\"{id}-title {id}-about\" \
             font-family=\"'DejaVu Sans', sans-serif\">\n\
             <title id=\"{id}-title\">{}</title>\n<desc id=\"{id}-about\">{}</desc>\n{}</svg>\n",
            escape(title),
            escape(about),
            self.body
        )
    }
}

/// Two places after the point are a hundredth of a pixel.
fn number(value: f64) -> String {
    let rounded = (value * 100.0).round() / 100.0;
    // Neither `-0` nor a number that XML readers do not know.
    match rounded.is_finite() {
        true => format!("{}", rounded + 0.0),
        false => "0".into(),
    }
}

/// Text as XML and HTML have it. Characters that XML forbids are left out.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_numbers_are_plain() {
        assert_eq!(escape("a<b & \"c\"\u{1}"), "a&lt;b &amp; &quot;c&quot;");
        assert_eq!(number(-0.001), "0");
        assert_eq!(number(1.0 / 3.0), "0.33");
        assert_eq!(number(f64::NAN), "0");
    }
}
