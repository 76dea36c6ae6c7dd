//! The known name that a mistyped one most likely means.

use edgedyno_shared::near::distance;

/// The nearest of `known` within a third of the name's length, ignoring case; ties go to the first.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|k| (distance(&name.to_lowercase(), &k.to_lowercase()), k))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, k)| k)
}

/// A hint for an unknown name: the near match if there is one, and everything that is known.
pub(crate) fn hint(name: &str, known: &[&str]) -> String {
    let list = known.join(", ");
    nearest(name, known.iter().copied()).map_or_else(
        || format!("known: {list}"),
        |near| format!("did you mean `{near}`? Known: {list}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_is_recognised_and_a_stranger_is_not() {
        let known = ["images", "sr", "state"];
        assert_eq!(nearest("image", known), Some("images"));
        assert_eq!(nearest("State", known), Some("state"));
        assert_eq!(nearest("tokens", known), None);
        assert_eq!(
            hint("image", &known),
            "did you mean `images`? Known: images, sr, state"
        );
    }
}
