//! Names of channels that come out by reading, each with a slot of its own.

/// Names found so far, of at most so many.
pub(super) struct Labels {
    known: Vec<String>,
    most: usize,
    begin: &'static str,
    end: &'static str,
    told: usize,
}

impl Labels {
    /// Names will be `begin.A.B.end` of the parts that are found; an empty end is left out.
    pub(super) fn new(most: usize, begin: &'static str, end: &'static str) -> Self {
        Self {
            known: Vec::with_capacity(most),
            most,
            begin,
            end,
            told: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// The slot of what has these parts; none where there are too many. A new one allocates, once.
    pub(super) fn slot(&mut self, parts: &[&[u8]]) -> Option<usize> {
        let (begin, end) = (self.begin, self.end);
        let is_it = |name: &String| is_made_of(name, begin, parts, end);
        if let Some(at) = self.known.iter().position(is_it) {
            return Some(at);
        }
        if self.known.len() == self.most {
            return None;
        }
        let mut name = self.begin.to_owned();
        for part in parts {
            name.push('.');
            name.extend(part.iter().map(|byte| plain(*byte) as char));
        }
        if !self.end.is_empty() {
            name.push('.');
            name.push_str(self.end);
        }
        self.known.push(name);
        Some(self.known.len() - 1)
    }

    /// A name that was not told yet, with its slot.
    pub(super) fn tell(&mut self) -> Option<(usize, &str)> {
        let slot = self.told;
        let name = self.known.get(slot)?;
        self.told += 1;
        Some((slot, name))
    }

    pub(super) fn has_untold(&self) -> bool {
        self.told < self.known.len()
    }
}

/// Letters that a channel's name may have.
fn plain(byte: u8) -> u8 {
    match byte.is_ascii_alphanumeric() {
        true => byte.to_ascii_lowercase(),
        false => b'_',
    }
}

/// Allocates nothing.
fn is_made_of(name: &str, begin: &str, parts: &[&[u8]], end: &str) -> bool {
    let Some(mut rest) = name.strip_prefix(begin) else {
        return false;
    };
    for part in parts {
        let Some(after) = rest.strip_prefix('.') else {
            return false;
        };
        let Some((made, after)) = after.split_at_checked(part.len()) else {
            return false;
        };
        if !made
            .bytes()
            .zip(*part)
            .all(|(made, byte)| made == plain(*byte))
        {
            return false;
        }
        rest = after;
    }
    match end {
        "" => rest.is_empty(),
        end => rest.strip_prefix('.') == Some(end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_made_once_and_told_once() {
        let mut labels = Labels::new(2, "x", "busy");
        assert_eq!(labels.slot(&[b"i915", b"render"]), Some(0));
        assert_eq!(labels.slot(&[b"i915", b"video-enhance"]), Some(1));
        assert_eq!(labels.slot(&[b"i915", b"render"]), Some(0));
        assert_eq!(labels.slot(&[b"i915", b"copy"]), None, "there is no room");
        assert_eq!(labels.tell(), Some((0, "x.i915.render.busy")));
        assert_eq!(labels.tell(), Some((1, "x.i915.video_enhance.busy")));
        assert_eq!(labels.tell(), None);
    }

    #[test]
    fn parts_that_run_together_are_not_the_same() {
        let mut labels = Labels::new(4, "t", "");
        assert_eq!(labels.slot(&[b"ab"]), Some(0));
        assert_eq!(labels.slot(&[b"a"]), Some(1));
        assert_eq!(labels.slot(&[b"ab", b"c"]), Some(2));
    }
}
