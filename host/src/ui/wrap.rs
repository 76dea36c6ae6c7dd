//! Long lines of text as several.

use super::table::WIDTH;

/// Breaks a text between words into lines of at most `width`, further ones indented by `indent`.
pub(crate) fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    let words = text.trim_start_matches(' ');
    let mut line = " ".repeat(text.len() - words.len());
    for word in words.split(' ') {
        let needed = line.chars().count() + 1 + word.chars().count();
        if !line.trim().is_empty() && needed > width {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            line.push_str(word);
        } else {
            if !line.is_empty() && !line.ends_with(' ') {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.push(line);
    lines.join("\n")
}

/// Sets text for the terminal: each line wrapped to the width of a page, further ones indented by two more than
/// their first, and a newline behind each.
pub(crate) fn prose(text: &str) -> String {
    let line = |line: &str| {
        let begins = line.len() - line.trim_start_matches(' ').len();
        wrapped(line, usize::from(WIDTH), begins + 2) + "\n"
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words() {
        let text = wrapped("one two three four", 9, 2);
        assert_eq!(text, "one two\n  three\n  four");
        assert!(
            wrapped(&"word ".repeat(60), 100, 2)
                .lines()
                .all(|l| l.chars().count() <= 100)
        );
    }

    #[test]
    fn prose_keeps_its_lines_and_indents_what_goes_on() {
        let long = format!("  {}", "word ".repeat(25).trim_end());
        let text = prose(&format!("short\n{long}\n"));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "short");
        // 2 + 19 x 5 + 4 are 101: the twentieth has no room.
        assert_eq!(lines[1], format!("  {}", "word ".repeat(19).trim_end()));
        assert_eq!(lines[2], format!("    {}", "word ".repeat(6).trim_end()));
        assert!(text.ends_with('\n') && lines.len() == 3);
        assert_eq!(prose(""), "");
    }
}
