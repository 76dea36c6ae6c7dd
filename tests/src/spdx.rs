//! Licence expressions of packages, as far as Cargo manifests use them (SPDX 2.3, annex D).

use anyhow::{Result, bail, ensure};

/// A parsed licence expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Licence {
    /// One licence, with its exception when it has one: `Apache-2.0 WITH LLVM-exception`.
    One(String),
    /// All of them hold.
    All(Vec<Self>),
    /// One of them may be chosen.
    Any(Vec<Self>),
}

impl Licence {
    /// Reads an expression. The slash of old manifests (`MIT/Apache-2.0`) means OR.
    pub fn parse(text: &str) -> Result<Self> {
        let spaced = text
            .replace('/', " OR ")
            .replace('(', " ( ")
            .replace(')', " ) ");
        let mut tokens = Tokens(spaced.split_whitespace().collect());
        let licence = any(&mut tokens)?;
        ensure!(tokens.0.is_empty(), "{text:?} goes on after its end");
        Ok(licence)
    }

    /// Whether a choice exists in which every licence is allowed.
    pub fn is_allowed(&self, allowed: &impl Fn(&str) -> bool) -> bool {
        match self {
            Self::One(name) => allowed(name),
            Self::All(parts) => parts.iter().all(|part| part.is_allowed(allowed)),
            Self::Any(parts) => parts.iter().any(|part| part.is_allowed(allowed)),
        }
    }
}

/// The words of the expression that are still to read.
struct Tokens<'a>(std::collections::VecDeque<&'a str>);

impl<'a> Tokens<'a> {
    fn next(&mut self) -> Option<&'a str> {
        self.0.pop_front()
    }

    fn take(&mut self, word: &str) -> bool {
        let is_next = self
            .0
            .front()
            .is_some_and(|next| next.eq_ignore_ascii_case(word));
        if is_next {
            self.0.pop_front();
        }
        is_next
    }
}

fn any(tokens: &mut Tokens<'_>) -> Result<Licence> {
    let mut parts = vec![all(tokens)?];
    while tokens.take("OR") {
        parts.push(all(tokens)?);
    }
    Ok(only(parts, Licence::Any))
}

// AND binds closer than OR.
fn all(tokens: &mut Tokens<'_>) -> Result<Licence> {
    let mut parts = vec![one(tokens)?];
    while tokens.take("AND") {
        parts.push(one(tokens)?);
    }
    Ok(only(parts, Licence::All))
}

fn one(tokens: &mut Tokens<'_>) -> Result<Licence> {
    if tokens.take("(") {
        let inner = any(tokens)?;
        ensure!(tokens.take(")"), "a parenthesis stays open");
        return Ok(inner);
    }
    let name = id(tokens)?;
    if tokens.take("WITH") {
        return Ok(Licence::One(format!("{name} WITH {}", id(tokens)?)));
    }
    Ok(Licence::One(name.to_owned()))
}

fn id<'a>(tokens: &mut Tokens<'a>) -> Result<&'a str> {
    match tokens.next() {
        Some(word) if !["AND", "OR", "WITH", "(", ")"].contains(&word) => Ok(word),
        Some(word) => bail!("{word:?} where a licence is expected"),
        None => bail!("ends where a licence is expected"),
    }
}

fn only(mut parts: Vec<Licence>, join: fn(Vec<Licence>) -> Licence) -> Licence {
    if parts.len() == 1 {
        parts.remove(0)
    } else {
        join(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_allowed(text: &str, allowed: &[&str]) -> bool {
        Licence::parse(text)
            .unwrap()
            .is_allowed(&|name| allowed.contains(&name))
    }

    #[test]
    fn a_choice_needs_one_and_a_sum_needs_all() {
        assert!(is_allowed("MIT OR GPL-3.0-only", &["MIT"]));
        assert!(!is_allowed("MIT AND Unicode-3.0", &["MIT"]));
        assert!(is_allowed(
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            &["Apache-2.0", "Unicode-3.0"]
        ));
    }

    #[test]
    fn and_binds_closer_than_or() {
        assert!(is_allowed("MIT OR ISC AND GPL-3.0-only", &["MIT"]));
        assert!(!is_allowed("(MIT OR ISC) AND GPL-3.0-only", &["MIT"]));
    }

    #[test]
    fn an_exception_makes_another_licence() {
        let text = "Apache-2.0 WITH LLVM-exception";
        assert!(!is_allowed(text, &["Apache-2.0"]));
        assert!(is_allowed(text, &[text]));
        assert!(is_allowed(&format!("{text} OR MIT"), &["MIT"]));
    }

    #[test]
    fn the_old_slash_is_a_choice() {
        assert!(is_allowed("MIT/Apache-2.0", &["MIT"]));
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for text in [
            "",
            "MIT OR",
            "(MIT",
            "MIT)",
            "MIT Apache-2.0",
            "AND MIT",
            "MIT WITH",
        ] {
            assert!(Licence::parse(text).is_err(), "{text:?}");
        }
    }
}
