//! Blocks of a page that show what commands print:
//!
//! ````text
//! ```console
//! $ edgedyno runs list
//! run  created ...
//! ```
//! ````
//!
//! A command is one line after `$ `, as a shell reads it; what follows up to the next one is its output.

const OPEN: &str = "```console";
const CLOSE: &str = "```";
const PROMPT: &str = "$ ";

/// Every command that stands in a console block, in order.
pub fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    shown(page, |command| {
        commands.push(command.to_owned());
        String::new()
    });
    commands
}

/// The page with what `answer` says below each command in place of what stood there.
pub fn shown(page: &str, mut answer: impl FnMut(&str) -> String) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in page.lines() {
        match (is_open, line.strip_prefix(PROMPT)) {
            (true, Some(command)) => {
                if lines.last().is_some_and(|last| last != OPEN) {
                    lines.push(String::new());
                }
                lines.push(line.to_owned());
                lines.extend(
                    answer(command)
                        .trim_end()
                        .lines()
                        .map(without_trailing_space),
                );
            }
            (true, None) if line != CLOSE => {}
            _ => {
                is_open = line == OPEN;
                lines.push(line.to_owned());
            }
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Editors and reviewers take blanks at the end of a line away.
fn without_trailing_space(line: &str) -> String {
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# Page

```console
$ first --flag
old
  old

$ second | head -n 1
```

```sh
$ not this
```

```console
$ third
```
";

    #[test]
    fn commands_are_found_in_their_order() {
        assert_eq!(
            commands(PAGE),
            ["first --flag", "second | head -n 1", "third"]
        );
    }

    #[test]
    fn answers_take_the_place_of_what_stood_there() {
        let made = shown(PAGE, |command| match command {
            "third" => String::new(),
            command => format!("{command}:  \n\n  new\n\n"),
        });
        let expected = "\
# Page

```console
$ first --flag
first --flag:

  new

$ second | head -n 1
second | head -n 1:

  new
```

```sh
$ not this
```

```console
$ third
```
";
        assert_eq!(made, expected);
        // Once more with the same answers changes nothing.
        let again = shown(&made, |command| match command {
            "third" => String::new(),
            command => format!("{command}:\n\n  new"),
        });
        assert_eq!(again, expected);
    }
}
