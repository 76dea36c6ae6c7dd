//! Options of a case, taken key by key: what nobody took is refused, with those that exist.

use edgedyno_shared::wire::failure::{Failure, FailureCode};

use crate::inputs::near;

/// The options of one case and what a backend knows.
pub(crate) struct Options<'a> {
    given: &'a [(String, String)],
    backend: &'static str,
    known: Vec<&'static str>,
}

impl<'a> Options<'a> {
    pub(crate) fn new(backend: &'static str, given: &'a [(String, String)]) -> Self {
        Self {
            given,
            backend,
            known: Vec::new(),
        }
    }

    /// The value of a key, whatever it says.
    pub(crate) fn text(&mut self, key: &'static str) -> Option<&'a str> {
        self.known.push(key);
        self.given
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, value)| value.as_str())
    }

    /// One of a few words; the default when the key is not given.
    pub(crate) fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
        default: T,
    ) -> Result<T, Failure> {
        let Some(value) = self.text(key) else {
            return Ok(default);
        };
        let found = words
            .iter()
            .find(|(word, _)| word.eq_ignore_ascii_case(value));
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            refused(format!(
                "{}: option {key}={value} is not one of {}",
                self.backend,
                words.join(", ")
            ))
        })
    }

    /// `on` or `off`; 1, 0, true and false are understood.
    pub(crate) fn switch(&mut self, key: &'static str, default: bool) -> Result<bool, Failure> {
        let words = [
            ("on", true),
            ("off", false),
            ("1", true),
            ("0", false),
            ("true", true),
            ("false", false),
        ];
        self.choice(key, &words, default)
    }

    /// As [`Self::switch`], but none when the key is not given.
    pub(crate) fn switch_if_given(&mut self, key: &'static str) -> Result<Option<bool>, Failure> {
        match self.given.iter().any(|(k, _)| k == key) {
            true => self.switch(key, false).map(Some),
            false => {
                self.known.push(key);
                Ok(None)
            }
        }
    }

    /// Refuses what was not asked for and does not pass `lets_through`.
    pub(crate) fn finish(self, lets_through: impl Fn(&str) -> bool) -> Result<(), Failure> {
        let stray = |key: &str| !self.known.contains(&key) && !lets_through(key);
        match self.given.iter().find(|(key, _)| stray(key)) {
            None => Ok(()),
            Some((key, _)) => Err(refused(format!("{} has no option `{key}`", self.backend))
                .hint(near::hint(key, &self.known))),
        }
    }
}

pub(crate) fn refused(detail: String) -> Failure {
    Failure::new(FailureCode::OptionRefused, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter()
            .map(|(k, v)| ((*k).into(), (*v).into()))
            .collect()
    }

    #[test]
    fn words_have_meanings_and_a_default() {
        let given = given(&[("arena", "OFF"), ("level", "all")]);
        let mut options = Options::new("x", &given);
        assert_eq!(options.switch("arena", true), Ok(false));
        assert_eq!(options.switch("pattern", true), Ok(true));
        assert_eq!(
            options.choice("level", &[("basic", 1), ("all", 9)], 1),
            Ok(9)
        );
        assert_eq!(options.finish(|_| false), Ok(()));
    }

    #[test]
    fn an_unknown_word_is_refused_with_the_known_ones() {
        let given = given(&[("level", "most")]);
        let failure = Options::new("x", &given).choice("level", &[("basic", 1), ("all", 9)], 1);
        assert_eq!(
            failure.unwrap_err().detail,
            "x: option level=most is not one of basic, all"
        );
    }

    #[test]
    fn an_unknown_key_is_refused_unless_it_is_let_through() {
        let given = given(&[("arema", "on"), ("session.x", "1")]);
        let mut options = Options::new("x", &given);
        options.switch("arena", true).unwrap();
        let failure = options.finish(|key| key.contains('.')).unwrap_err();
        assert_eq!(failure.code, FailureCode::OptionRefused);
        assert_eq!(failure.detail, "x has no option `arema`");
        assert_eq!(
            failure.hint.as_deref(),
            Some("did you mean `arena`? Known: arena")
        );
    }
}
