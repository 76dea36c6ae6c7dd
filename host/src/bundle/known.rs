//! What is private on this machine: its name and user, boards and where they are.

use std::collections::BTreeMap;

use super::clean::Words;
use crate::board::known::KnownBoards;
use crate::board::local;
use crate::board::settings::Settings;

/// Words to take out of a run of these boards; with `keeps_boards` their names stay.
pub fn words(boards: &[String], keeps_boards: bool) -> Words {
    let variable = |name: &str| std::env::var(name).ok();
    let mut names: Vec<String> = ["USER", "LOGNAME"]
        .into_iter()
        .filter_map(variable)
        .collect();
    let machine = nix::unistd::gethostname().unwrap_or_default();
    names.extend(with_short(&machine.to_string_lossy()));
    // Without the list of boards nothing is known of them; what is typical of addresses goes all the same.
    let known = Settings::from_env()
        .ok()
        .and_then(|settings| KnownBoards::read(&settings).ok());
    if let Some(known) = known {
        for (_, board) in known.iter() {
            let route = board
                .ssh
                .as_ref()
                .map(|route| route.destination.to_string());
            names.extend(route.iter().flat_map(|to| words_of(to)));
        }
    }
    let others = boards.iter().filter(|name| *name != local::NAME);
    let aliases: BTreeMap<String, String> = match keeps_boards {
        true => BTreeMap::new(),
        false => (1..)
            .zip(others.clone())
            .map(|(number, name)| (name.clone(), format!("board-{number}")))
            .collect(),
    };
    if keeps_boards {
        names.retain(|name| !boards.contains(name));
    }
    Words::new(names, aliases, variable("HOME"))
}

/// `lab.example` is also `lab`.
fn with_short(name: &str) -> Vec<String> {
    let short = name.split('.').next().unwrap_or_default();
    vec![name.to_owned(), short.to_owned()]
}

/// User and host of `ssh://user@host:22`.
fn words_of(destination: &str) -> Vec<String> {
    let bare = destination.rsplit("://").next().unwrap_or_default();
    let parts = bare.split(['@', ':', '/']);
    let named = parts.filter(|part| part.chars().any(char::is_alphabetic));
    named.flat_map(with_short).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_its_user_and_its_host() {
        let words = words_of("ssh://sunrise@x5.lab:2222");
        assert_eq!(words, ["sunrise", "sunrise", "x5.lab", "x5"]);
        assert_eq!(words_of("ssh://10.0.0.7"), [""; 0]);
    }

    #[test]
    fn boards_have_other_names_but_for_this_machine() {
        let boards = ["local".to_owned(), "x5".to_owned(), "zz".to_owned()];
        let hidden = words(&boards, false);
        assert_eq!(hidden.board("local"), None);
        assert_eq!(hidden.board("zz"), Some("board-2"));
        assert_eq!(words(&boards, true).board("zz"), None);
    }
}
