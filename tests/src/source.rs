//! Looking for words in Rust source, past comments and strings.

use std::fs;
use std::path::{Path, PathBuf};

/// Every `.rs` file below a folder, sorted; build folders are left out.
pub fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    collect(folder, &mut files);
    files.sort();
    files
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                collect(&path, files);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Whether a word stands in the code of a source text: whole, and not in a comment or a string.
pub fn has_word(source: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let code = code_only(source);
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// The source without what stands in comments, strings and character literals.
pub fn code_only(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let skipped = comment(rest)
            .or_else(|| raw_string(rest, &code))
            .or_else(|| quoted(rest));
        match skipped {
            Some(length) => {
                // A blank keeps the words on both sides apart.
                code.push(' ');
                rest = &rest[length..];
            }
            None => {
                code.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    code
}

/// The length of the comment at the start of the text. Block comments nest in Rust.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if !text.starts_with("/*") {
        return None;
    }
    let mut depth = 0;
    let mut at = 0;
    loop {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
        } else if let Some(next) = rest.chars().next() {
            at += next.len_utf8();
        } else {
            return Some(at);
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

/// The length of the raw string (`r"…"`, `r#"…"#`, `br…`, `cr…`) at the start of the text, unless
/// its `r` is the end of a name.
fn raw_string(text: &str, before: &str) -> Option<usize> {
    if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let body = text.trim_start_matches(['b', 'c']).strip_prefix('r')?;
    let hashes = body.len() - body.trim_start_matches('#').len();
    let inner = body[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = text.len() - inner.len();
    Some(
        inner
            .find(&end)
            .map_or(text.len(), |at| start + at + end.len()),
    )
}

/// The length of the string or character literal at the start of the text. A quote that begins a
/// lifetime is none: there the closing quote does not follow the first character.
fn quoted(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|c| ['"', '\''].contains(c))?;
    let mut characters = text.char_indices().skip(1);
    if quote == '\'' {
        let (_, first) = characters.next()?;
        if first == '\\' {
            characters.next()?;
        } else {
            return characters
                .next()
                .filter(|(_, c)| *c == '\'')
                .map(|(at, _)| at + 1);
        }
    }
    while let Some((at, c)) = characters.next() {
        if c == quote {
            return Some(at + 1);
        }
        if c == '\\' {
            characters.next();
        }
    }
    Some(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_only_in_code() {
        for code in [
            "unsafe { f() }",
            "x.map(|y|unsafe{y})",
            "#[unsafe(no_mangle)]",
            "let c = 'a'; unsafe {}",
        ] {
            assert!(has_word(code, "unsafe"), "{code}");
        }
        for none in [
            "// unsafe",
            "/* a /* unsafe */ unsafe */ safe",
            "\"unsafe\"",
            "\"a \\\" unsafe\"",
            "r#\"a \" unsafe\"#",
            "br\"unsafe\"",
            "unsafe_code",
            "is_unsafe",
        ] {
            assert!(!has_word(none, "unsafe"), "{none}");
        }
    }

    #[test]
    fn quotes_of_characters_and_lifetimes_do_not_open_strings() {
        assert!(has_word("let q = '\"'; unsafe {} // \"", "unsafe"));
        assert!(has_word("let q = '\\''; unsafe {}", "unsafe"));
        assert!(has_word("fn f<'a>(x: &'a str) { unsafe {} }", "unsafe"));
        assert!(has_word("let q = '\\u{1F600}'; unsafe {}", "unsafe"));
        assert!(has_word("bar\"\"; unsafe {}", "unsafe"));
    }
}
