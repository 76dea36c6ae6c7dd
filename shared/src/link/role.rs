//! What a host may do on a board. Each role includes those before it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Role {
    /// Asks what the board is and what it does.
    Observe,
    /// Uploads models and inputs, orders repeats, receives what was measured.
    Run,
    /// Changes the agent itself: updates it, retires it, takes the board from another host.
    Admin,
}

/// A word that is no role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no role; there are observe, run and admin")]
pub struct NotRole(pub String);

impl Role {
    pub const ALL: [Self; 3] = [Self::Observe, Self::Run, Self::Admin];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Run => "run",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = NotRole;
    fn from_str(text: &str) -> Result<Self, NotRole> {
        let found = Self::ALL.into_iter().find(|role| role.name() == text);
        found.ok_or_else(|| NotRole(text.chars().take(40).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_includes_those_before_it() {
        assert!(Role::Observe < Role::Run && Role::Run < Role::Admin);
        for role in Role::ALL {
            assert_eq!(role.name().parse(), Ok(role));
        }
        assert_eq!("root".parse::<Role>(), Err(NotRole("root".into())));
    }
}
