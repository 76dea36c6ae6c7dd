//! Bringing files of a runtime to a board.

use std::path::Path;

use super::deploy::{DeployError, exported, on_disk, refused, sweep};
use super::fault::last_words;
use super::shell::{is_plain, is_plain_path, marker};
use super::{Fault, Shell, SshError};

/// A file of a runtime, to be put where the agent looks for it.
#[derive(Debug, Clone, Copy)]
pub struct RuntimeFile<'a> {
    pub path: &'a Path,
    pub bytes: u64,
    pub sha256: &'a str,
    /// Its folder, below the cache.
    pub below: &'a str,
}

/// Sends it under a working name, and gives it its own when all of it is there: the end of an ssh that died
/// looks like the end of the file to the board. The path that it has then.
pub async fn runtime_file(
    shell: &Shell,
    environment: &str,
    file: &RuntimeFile<'_>,
    tell: &mut dyn FnMut(u64),
) -> Result<String, DeployError> {
    let name = file.path.file_name().unwrap_or_default();
    let name = name.to_string_lossy().into_owned();
    let folder = format!(
        "\"${{EDGEDYNO_CACHE:-${{XDG_CACHE_HOME:-$HOME/.cache}}/edgedyno}}/{}\"",
        file.below
    );
    let unfinished = format!(".new-{}", marker());
    let line = format!(
        "{}umask 077; mkdir -p {folder} && cd {folder} && cat > {unfinished} || \
         {{ rm -f {unfinished}; exit 9; }}",
        exported(environment).replace('\n', "; ")
    );
    if !is_plain(&line) || !is_plain_path(&format!("/{name}")) {
        return Err(DeployError::Ssh(SshError::new(
            shell,
            Fault::Shell,
            format!("`{name}` is no name for a file on a board"),
        )));
    }
    let sent = shell.send(&line, file.path, tell).await?;
    if sent.code != 0 {
        return Err(refused(&sent));
    }
    let script = exported(environment) + &settled(&folder, &unfinished, &name, file);
    let answer = shell.run(&script).await?;
    match answer.code {
        0 => Ok(format!("{}/{name}", answer.output.trim())),
        7 => Err(DeployError::Damaged {
            said: last_words(&answer.stderr),
        }),
        _ => Err(refused(&answer)),
    }
}

/// Looks at a file that was sent, and gives it its name; its folder is told. A board without any tool for
/// hashes counts bytes, and its agent then says what it opened.
fn settled(folder: &str, unfinished: &str, name: &str, file: &RuntimeFile<'_>) -> String {
    let RuntimeFile { bytes, sha256, .. } = file;
    format!(
        "cd {folder} || exit 6\n\
         damaged() {{ rm -f {unfinished}; echo \"$1\" >&2; exit 7; }}\n\
         there=$(wc -c < {unfinished}) || exit 6\n\
         [ \"$there\" -eq {bytes} ] || damaged \"{name} has $there of {bytes} bytes\"\n\
         hash=$({{ sha256sum {unfinished} || busybox sha256sum {unfinished} || \
         openssl dgst -sha256 -r {unfinished}; }} 2>/dev/null)\nhash=${{hash%% *}}\n\
         case \"$hash\" in ''|{sha256}) ;; *) damaged \"{name} has sha256 $hash\";; esac\n\
         {}mv -f {unfinished} {name} || exit 6\n{}{}pwd",
        on_disk(unfinished),
        on_disk("."),
        sweep(".")
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::{TOOLS, filtered, names};
    use super::*;

    fn put(shell: &Shell, cache: &Path, file: &Path) -> Result<String, DeployError> {
        let bytes = std::fs::read(file).unwrap();
        let sha256 = crate::model::digest::Digest::of(&bytes).to_string();
        let sent = RuntimeFile {
            path: file,
            bytes: bytes.len() as u64,
            sha256: &sha256,
            below: "runtimes/onnxruntime/1.30.0",
        };
        let environment = format!("EDGEDYNO_CACHE={} ", cache.display());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(runtime_file(shell, &environment, &sent, &mut |_| {}))
    }

    #[test]
    fn a_library_has_its_name_only_when_all_of_it_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        let there = cache.join("runtimes/onnxruntime/1.30.0");
        let file = folder.path().join("libonnxruntime.so.1.30.0");
        std::fs::write(&file, vec![7; 300_000]).unwrap();
        let with_hashes = [&TOOLS[..], &["sha256sum"][..]].concat();
        // Cut, with and without a tool for hashes; the same length and other bytes; nothing at all.
        for (filter, tools, word) in [
            ("head -c 100000", &with_hashes[..], "100000 of 300000 bytes"),
            ("head -c 100000", &TOOLS[..], "100000 of 300000 bytes"),
            ("tr '\\007' x", &with_hashes[..], "has sha256"),
            (": </dev/null", &TOOLS[..], "0 of 300000 bytes"),
        ] {
            let shell = filtered(folder.path(), filter, tools);
            let refused = put(&shell, &cache, &file).unwrap_err();
            assert!(
                matches!(refused, DeployError::Damaged { .. }),
                "{filter}: {refused}"
            );
            assert!(refused.to_string().contains(word), "{filter}: {refused}");
            assert!(names(&there).is_empty(), "{filter}: {:?}", names(&there));
        }
        for tools in [&with_hashes[..], &TOOLS[..]] {
            let shell = filtered(folder.path(), "cat", tools);
            let path = put(&shell, &cache, &file).unwrap();
            assert_eq!(Path::new(&path), there.join("libonnxruntime.so.1.30.0"));
            assert_eq!(names(&there), ["libonnxruntime.so.1.30.0"]);
            assert_eq!(std::fs::read(path).unwrap(), std::fs::read(&file).unwrap());
        }
    }

    #[test]
    fn a_name_that_a_shell_could_read_as_more_is_not_sent() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lib$(x).so");
        std::fs::write(&file, "x").unwrap();
        let shell = filtered(folder.path(), "cat", &TOOLS);
        let cache = folder.path().join("cache");
        assert!(put(&shell, &cache, &file).is_err());
        assert!(!cache.exists());
    }
}
