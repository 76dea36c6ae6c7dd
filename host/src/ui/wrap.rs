//! Long lines of text as several.

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
}
