//! Words of others as they may stand in a log, or on a terminal: whoever wrote them could otherwise move
//! the cursor of whoever reads them, or make a line look like another.

/// Letters of a name that somebody gave.
const LONGEST_NAME: usize = 64;

/// A name as one line of at most 64 letters.
pub fn name(text: &str) -> String {
    let kept = text.chars().filter(|c| is_plain(*c));
    let kept: String = kept.take(LONGEST_NAME).collect();
    kept.trim().to_owned()
}

/// Text of any length: line ends, of two letters too, and tabs stay, and what else a terminal would obey becomes a mark.
pub fn text(text: &str) -> String {
    let shown = |c| match is_plain(c) || c == '\n' || c == '\t' {
        true => c,
        false => char::REPLACEMENT_CHARACTER,
    };
    text.replace("\r\n", "\n").chars().map(shown).collect()
}

/// Whether a letter only shows itself. Control characters (also those of one byte that begin a sequence,
/// U+0080 to U+009F) do more, and so does what turns the direction of a line round (Unicode's UAX 9).
pub fn is_plain(letter: char) -> bool {
    let turns = matches!(letter, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !letter.is_control() && !turns && !matches!(letter, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        assert_eq!(
            name(" ann\x1b[2J\r\n\u{9b}31m@pc\u{202e}\u{7f} "),
            "ann[2J31m@pc"
        );
        assert_eq!(name(&"x".repeat(100)).len(), 64);
        assert_eq!(name("\n\x07"), "");
        assert_eq!(name("Zoë 日本 µ"), "Zoë 日本 µ");
        let shown = text("a\x1b]0;t\x07\n\tb\u{85}\u{2028}\r\n");
        assert_eq!(shown, "a\u{fffd}]0;t\u{fffd}\n\tb\u{fffd}\u{fffd}\n");
    }
}
