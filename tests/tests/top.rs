//! The live view at a terminal: keys, another size, sixty columns, no colours, and a recording.

use edgedyno_tests::commands::text;
use edgedyno_tests::{Sandbox, Terminal};
use serde_json::Value;

fn top(sandbox: &Sandbox, rows: u16, columns: u16) -> Terminal {
    let args = ["top", "--every", "300ms"];
    sandbox.terminal(args, rows, columns)
}

fn has(screen: &[String], what: &str) -> bool {
    screen.iter().any(|line| line.contains(what))
}

#[test]
fn keys_hold_move_record_and_quit() {
    let sandbox = Sandbox::new();
    let mut terminal = top(&sandbox, 12, 100);
    terminal.wait_for("channels and keys", |screen| {
        has(screen, "channels watched") && has(screen, "q quit")
    });
    let first = terminal.screen()[1].clone();
    terminal.press("jj");
    terminal.wait_for("two lines further down", |screen| {
        screen.len() > 1 && screen[1].split(' ').next() != first.split(' ').next()
    });
    terminal.press("\x1b[A\x1b[A");
    terminal.wait_for("the begin again", |screen| {
        screen.len() > 1 && screen[1].split(' ').next() == first.split(' ').next()
    });
    terminal.press(" ");
    terminal.wait_for("a held view", |screen| has(screen, "held; "));
    terminal.press(" r");
    terminal.wait_for("a few rounds of a recording", |screen| {
        has(screen, ", 3 rounds") || has(screen, ", 4 rounds")
    });
    terminal.press("r");
    terminal.wait_for("its run", |screen| has(screen, "recorded as run"));
    terminal.press("q");
    assert_eq!(terminal.wait(), Some(0));
    let settings = terminal.settings();
    assert!(
        !settings.contains("-icanon") && !settings.contains("-echo "),
        "{settings}"
    );

    let runs = sandbox.edgedyno(["runs", "list", "--json"]).ok().json();
    assert_eq!(runs["runs"][0]["command"], "top", "{runs:#}");
    let samples = sandbox.edgedyno(["samples", "last", "--json"]).ok().json();
    let channels = samples["cases"][0]["repeats"][0]["channels"]
        .as_array()
        .unwrap();
    // Read ten times a second, so that each round sees another of its samples.
    let is_busy = |c: &&Value| text(&c["name"]).ends_with(".busy");
    let busy = channels.iter().find(is_busy);
    assert!(busy.unwrap()["samples"].as_u64().unwrap() >= 2, "{busy:?}");
    sandbox.finish();
}

#[test]
fn a_recording_that_is_going_on_is_kept_when_it_quits() {
    let sandbox = Sandbox::new();
    let mut terminal = top(&sandbox, 12, 100);
    terminal.wait_for("the first round", |screen| has(screen, "channels watched"));
    terminal.press("r");
    terminal.wait_for("a recording", |screen| {
        has(screen, ", 1 rounds") || has(screen, ", 2 rounds")
    });
    terminal.press("q");
    assert_eq!(terminal.wait(), Some(0));
    assert!(
        terminal.shown().contains("edgedyno samples"),
        "{}",
        terminal.shown()
    );
    sandbox.edgedyno(["samples", "last"]).ok();
    sandbox.finish();
}

#[test]
fn it_fits_sixty_columns_and_a_terminal_that_changes_its_size() {
    let sandbox = Sandbox::new();
    let mut terminal = top(&sandbox, 20, 60);
    terminal.wait_for("a first screen", |screen| has(screen, "channels watched"));
    let fits = |screen: &[String], rows: usize, columns: usize| {
        screen.len() == rows && screen.iter().all(|line| line.chars().count() <= columns)
    };
    terminal.wait_for("twenty lines of sixty", |screen| fits(screen, 20, 60));
    terminal.resize(9, 44);
    terminal.wait_for("nine lines of forty-four", |screen| fits(screen, 9, 44));
    let shown = terminal.shown();
    for colour in ["\x1b[3", "\x1b[9", "\x1b[1m"] {
        assert!(!shown.contains(colour), "it has no colours");
    }
    terminal.press("q");
    assert_eq!(terminal.wait(), Some(0));
    sandbox.finish();
}

#[test]
fn ctrl_c_leaves_the_terminal_as_it_was() {
    let sandbox = Sandbox::new();
    let mut terminal = top(&sandbox, 20, 80);
    terminal.wait_for("a first screen", |screen| has(screen, "channels watched"));
    assert!(terminal.settings().contains("-icanon"));
    // Not the terminal's foreground group: the signal is sent as the terminal would.
    terminal.interrupt();
    terminal.wait();
    assert!(!terminal.settings().contains("-icanon"));
    sandbox.finish();
}

#[test]
fn where_nobody_watches_rounds_come_one_below_the_other() {
    let sandbox = Sandbox::new();
    let shown = sandbox
        .edgedyno(["top", "--every", "300ms", "--for", "1s"])
        .ok();
    assert!(!shown.stdout.contains('\x1b'), "{}", shown.stdout);
    assert!(
        shown.stdout.matches("channels watched").count() >= 2,
        "{}",
        shown.stdout
    );
    sandbox.finish();
}

#[test]
fn every_channel_without_a_value_has_its_reason() {
    let sandbox = Sandbox::new();
    let shown = sandbox.edgedyno(["top", "--once"]).ok().stdout;
    let document: Value = sandbox.edgedyno(["top", "--once", "--json"]).ok().json();
    let missing = document["channels"].as_array().unwrap().iter();
    for channel in missing.filter(|channel| channel["state"] != "ok") {
        let line = format!(
            "  {}  {}: ",
            text(&channel["name"]),
            text(&channel["state"])
        );
        assert!(shown.contains(&line), "{line}\n{shown}");
    }
    sandbox.finish();
}
