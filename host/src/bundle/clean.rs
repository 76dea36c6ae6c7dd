//! Taking names of people, machines and folders out of free text.

use std::collections::BTreeMap;

/// Stands where something was taken out.
pub const GONE: &str = "(left out)";

/// Folders whose paths are the same on every machine.
const OF_THE_SYSTEM: [&str; 12] = [
    "/usr/",
    "/lib/",
    "/lib64/",
    "/proc/",
    "/sys/",
    "/dev/",
    "/etc/",
    "/bin/",
    "/sbin/",
    "/opt/",
    "/boot/",
    "/run/edgedyno/",
];

/// Words too common to say anything of anybody.
const COMMON: [&str; 7] = [
    "root",
    "local",
    "localhost",
    "user",
    "admin",
    "ubuntu",
    "debian",
];

/// What is known to be private here.
#[derive(Debug, Clone, Default)]
pub struct Words {
    /// Names of hosts and users.
    gone: Vec<String>,
    /// Names of boards, and what stands for each.
    boards: BTreeMap<String, String>,
    home: Option<String>,
}

impl Words {
    /// `names` of hosts and users; `boards` with what stands for each.
    pub fn new(
        names: impl IntoIterator<Item = String>,
        boards: BTreeMap<String, String>,
        home: Option<String>,
    ) -> Self {
        let mut gone: Vec<String> = names
            .into_iter()
            .filter(|name| name.chars().count() > 2 && !COMMON.contains(&name.as_str()))
            .filter(|name| !boards.contains_key(name))
            .collect();
        // The longer first: `x5.lab` before `x5`.
        gone.sort_by_key(|name| std::cmp::Reverse(name.len()));
        gone.dedup();
        let home = home.filter(|home| home.len() > 1);
        Self { gone, boards, home }
    }

    /// What a board is called in the bundle.
    pub fn board(&self, name: &str) -> Option<&str> {
        self.boards.get(name).map(String::as_str)
    }

    /// The text without private words; none when there are none in it.
    pub fn clean(&self, text: &str) -> Option<String> {
        let mut out = text.to_owned();
        if let Some(home) = &self.home {
            out = replace_word(&out, home, "~", |c| c != '/');
        }
        out = tokens(&out);
        let in_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        for name in &self.gone {
            out = replace_word(&out, name, GONE, in_word);
        }
        for (name, alias) in &self.boards {
            out = replace_word(&out, name, alias, in_word);
        }
        (out != text).then_some(out)
    }
}

/// Replaces where neither the character before nor the one behind belongs to the same word.
fn replace_word(text: &str, word: &str, by: &str, in_word: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, found) = rest.split_at(at);
        let after = &found[word.len()..];
        out.push_str(before);
        let alone = !out
            .chars()
            .next_back()
            .is_some_and(|c| c.is_alphanumeric() || c == '_')
            && !after
                .chars()
                .next()
                .is_some_and(|c| in_word(c) && !c.is_whitespace() && !is_edge(c));
        out.push_str(if alone { by } else { word });
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Ends a token.
fn is_edge(c: char) -> bool {
    c.is_whitespace() || "\"'`,;()[]<>{}|=".contains(c)
}

fn tokens(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(is_edge).unwrap_or(rest.len());
        let (token, after) = rest.split_at(end);
        out.push_str(&token_cleaned(token));
        let mut chars = after.chars();
        out.extend(chars.next());
        rest = chars.as_str();
    }
    out
}

fn token_cleaned(token: &str) -> String {
    let bare = token.trim_end_matches(['.', ':', '!', '?']);
    let tail = &token[bare.len()..];
    if let Some((scheme, _)) = bare.split_once("://") {
        return format!("{scheme}://{GONE}{tail}");
    }
    if is_mail(bare) || is_address(bare) || is_mac(bare) {
        return format!("{GONE}{tail}");
    }
    match path_cleaned(bare) {
        Some(cleaned) => format!("{cleaned}{tail}"),
        None => token.to_owned(),
    }
}

/// `sunrise@x5`, and not `cpu1@50%`.
fn is_mail(token: &str) -> bool {
    let Some((user, host)) = token.split_once('@') else {
        return false;
    };
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_alphanumeric() || "._-:/~".contains(c))
    };
    let host_begins = host.starts_with(|c: char| c.is_alphabetic());
    let is_host = host_begins || is_address(host.split(['/', '~']).next().unwrap_or_default());
    is_name(user) && is_name(host) && is_host
}

/// An IPv4 address, with a port or without, or an IPv6 address of at least two groups.
fn is_address(token: &str) -> bool {
    if token.parse::<std::net::Ipv6Addr>().is_ok() && token.len() > 3 {
        return true;
    }
    let host = token.split_once(':').map_or(token, |(host, _)| host);
    host.parse::<std::net::Ipv4Addr>()
        .is_ok_and(|address| !address.is_loopback())
}

fn is_mac(token: &str) -> bool {
    let groups: Vec<&str> = token.split([':', '-']).collect();
    let is_byte = |group: &&str| group.len() == 2 && group.bytes().all(|b| b.is_ascii_hexdigit());
    groups.len() == 6 && groups.iter().all(is_byte)
}

/// An absolute path is its last name, but for those of the system.
fn path_cleaned(token: &str) -> Option<String> {
    if token.contains(":\\") {
        let name = token.rsplit('\\').next().unwrap_or_default();
        return Some(format!("\u{2026}\\{name}"));
    }
    let begin = match token.find("/home/").or_else(|| token.find("/Users/")) {
        Some(at) => at,
        None if token.starts_with(['/', '~']) => 0,
        // `file:/tmp/x`, `at:/data/x`
        None => token.find(":/").map(|at| at + 1)?,
    };
    let (before, path) = token.split_at(begin);
    let deep = path.matches('/').count() > 1 || path.starts_with("~/");
    if !deep || OF_THE_SYSTEM.iter().any(|system| path.starts_with(system)) {
        return None;
    }
    let name = path
        .trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or_default();
    // The folder of a user is named after him.
    let is_home = path.trim_end_matches('/').matches('/').count() == 2
        && ["/home/", "/Users/"]
            .iter()
            .any(|home| path.starts_with(home));
    Some(match is_home {
        true => format!("{before}~"),
        false => format!("{before}\u{2026}/{name}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Words {
        let boards = BTreeMap::from([("x5".to_owned(), "board-1".to_owned())]);
        let names = ["alice", "lab-host.example", "lab-host", "root", "x5"].map(str::to_owned);
        Words::new(names, boards, Some("/home/alice smith".into()))
    }

    fn clean(text: &str) -> String {
        words().clean(text).unwrap_or_else(|| text.to_owned())
    }

    #[test]
    fn folders_are_their_last_name() {
        assert_eq!(clean("/home/bob/secret/net.onnx"), "…/net.onnx");
        assert_eq!(
            clean("cannot open `/data/acme/net.onnx`: no"),
            "cannot open `…/net.onnx`: no"
        );
        assert_eq!(clean("--model=/Users/bob/net.onnx"), "--model=…/net.onnx");
        assert_eq!(clean("/home/alice smith/a/net.onnx"), "…/net.onnx");
        assert_eq!(clean("in /home/bob/."), "in ~.");
        assert_eq!(clean("~/models/net.onnx"), "…/net.onnx");
        assert_eq!(clean("path:/tmp/x/y"), "path:…/y");
        assert_eq!(clean("C:\\Users\\bob\\net.onnx"), "…\\net.onnx");
    }

    #[test]
    fn people_machines_and_addresses_are_gone() {
        assert_eq!(clean("ssh://sunrise@192.168.7.5"), "ssh://(left out)");
        assert_eq!(
            clean("no answer from bob@x9.lab"),
            "no answer from (left out)"
        );
        assert_eq!(clean("from 10.0.0.7:7447."), "from (left out).");
        assert_eq!(clean("aa:bb:cc:dd:ee:ff"), "(left out)");
        assert_eq!(clean("fe80::1:2"), "(left out)");
        assert_eq!(clean("lab-host.example said"), "(left out) said");
        assert_eq!(clean("alice, lab-host"), "(left out), (left out)");
        assert_eq!(clean("on x5: no"), "on board-1: no");
    }

    #[test]
    fn what_says_nothing_of_anybody_stays() {
        for text in [
            "/usr/lib/libonnxruntime.so.1.32.0",
            "/sys/class/thermal/thermal_zone0/temp",
            "mem_copy_nt:cpu1@50%",
            "threads=1,2",
            "root mean square",
            "malice x5x x55",
            "a/b",
            "models/net.onnx",
            "p50 1.5 ms / trial",
            "1.32.0",
            "",
        ] {
            assert_eq!(words().clean(text), None, "{text}");
        }
    }
}
