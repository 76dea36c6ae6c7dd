//! Inputs of a case from what was asked for: a generator, or files put together into sets.

use std::fs;
use std::path::{Path, PathBuf};

use edgedyno_shared::case::{Generator, InputFile, InputPolicy, InputSource, InputSpec};

use crate::board::content::Content;
use crate::exit::CommandError;
use crate::options::inputs::InputOptions;

/// What trials are fed with, and the files that hold it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feed {
    pub spec: InputSpec,
    pub contents: Vec<Content>,
}

/// One tensor each for some inputs.
type Set = Vec<InputFile>;

impl Feed {
    /// Reads and hashes the files named, or draws values.
    pub fn resolve(options: &InputOptions) -> Result<Self, CommandError> {
        let chosen = options.input_policy.map(InputPolicy::from);
        if options.inputs.is_empty() {
            return generated(options, chosen);
        }
        let mut contents = Vec::new();
        let mut parts: Vec<Vec<Set>> = Vec::new();
        for text in &options.inputs {
            parts.push(read_part(text, &mut contents)?);
        }
        let sets = combine(&options.inputs, &parts)?;
        let usual = match sets.len() {
            1 => InputPolicy::Fixed,
            _ => InputPolicy::Cycle,
        };
        let policy = chosen.unwrap_or(usual);
        if policy == InputPolicy::Fresh {
            return Err(CommandError::usage("files cannot be fresh for every trial")
                .hint("use --input-policy cycle, or a generator"));
        }
        let source = InputSource::Files { sets };
        let spec = InputSpec { source, policy };
        Ok(Self { spec, contents })
    }
}

fn generated(options: &InputOptions, chosen: Option<InputPolicy>) -> Result<Feed, CommandError> {
    let policy = chosen.unwrap_or(InputPolicy::Fixed);
    if policy == InputPolicy::Cycle {
        return Err(CommandError::usage("there is nothing to cycle through")
            .hint("name a folder with --input, or use --input-policy fresh"));
    }
    let generator = options.generator.clone().unwrap_or(Generator::Normal);
    let seed = options.seed;
    let source = InputSource::Generated { generator, seed };
    Ok(Feed {
        spec: InputSpec { source, policy },
        contents: Vec::new(),
    })
}

/// Sets that one `--input` gives: as many as a folder has files.
fn read_part(text: &str, contents: &mut Vec<Content>) -> Result<Vec<Set>, CommandError> {
    let (input, path) = split(text);
    let mut sets = Vec::new();
    for file in files(&path)? {
        let content = Content::of_file(&file).map_err(|why| unreadable(&file, why))?;
        sets.push(vec![InputFile {
            input: input.to_owned(),
            sha256: content.sha256,
        }]);
        if !contents.contains(&content) {
            contents.push(content);
        }
    }
    match sets.is_empty() {
        true => Err(
            CommandError::usage(format!("folder `{}` holds no file", path.display()))
                .hint("put .npy or raw files into it"),
        ),
        false => Ok(sets),
    }
}

/// `NAME=PATH`, or a path alone; a file whose own name holds `=` is a path.
fn split(text: &str) -> (&str, PathBuf) {
    match text.split_once('=') {
        Some((name, path)) if !Path::new(text).exists() => (name, path.into()),
        _ => ("", text.into()),
    }
}

/// The file, or the files of a folder by name; hidden ones are left out.
fn files(path: &Path) -> Result<Vec<PathBuf>, CommandError> {
    let found = fs::metadata(path).map_err(|why| unreadable(path, why))?;
    if !found.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).map_err(|why| unreadable(path, why))?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.map_err(|why| unreadable(path, why))?.path();
        let name = file.file_name().unwrap_or_default().as_encoded_bytes();
        if !name.starts_with(b".") && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Joins the parts set by set; a part of one set joins each.
fn combine(texts: &[String], parts: &[Vec<Set>]) -> Result<Vec<Set>, CommandError> {
    let most = parts.iter().map(Vec::len).max().unwrap_or(0);
    let odd = parts
        .iter()
        .position(|part| part.len() != 1 && part.len() != most);
    if let Some(odd) = odd {
        let (text, files) = (&texts[odd], parts[odd].len());
        let what = format!("input `{text}` has {files} files where another has {most}");
        return Err(CommandError::usage(what).hint("give each folder as many files"));
    }
    let set = |i: usize| {
        parts
            .iter()
            .flat_map(move |part| part[i % part.len()].clone())
    };
    Ok((0..most).map(|i| set(i).collect()).collect())
}

/// Reference tensors: every file of a folder, named after its output.
pub fn references(folder: &Path) -> Result<(Vec<InputFile>, Vec<Content>), CommandError> {
    let mut named = Vec::new();
    let mut contents = Vec::new();
    for file in files(folder)? {
        let content = Content::of_file(&file).map_err(|why| unreadable(&file, why))?;
        let output = file.file_stem().unwrap_or_default().to_string_lossy();
        named.push(InputFile {
            input: output.into_owned(),
            sha256: content.sha256,
        });
        contents.push(content);
    }
    if named.is_empty() {
        let what = format!("reference folder `{}` holds no file", folder.display());
        return Err(CommandError::usage(what).hint("`run --save-outputs DIR` writes one"));
    }
    Ok((named, contents))
}

fn unreadable(path: &Path, why: std::io::Error) -> CommandError {
    CommandError::usage(format!("`{}` cannot be read", path.display()))
        .because(why)
        .hint("check the path and its permissions")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    fn options(inputs: &[&str]) -> InputOptions {
        InputOptions {
            inputs: inputs.iter().map(|text| (*text).to_owned()).collect(),
            input_policy: None,
            generator: None,
            seed: 3,
        }
    }

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in files {
            fs::write(folder.path().join(name), name).unwrap();
        }
        folder
    }

    #[test]
    fn a_folder_is_cycled_and_a_file_is_fixed() {
        let folder = folder(&["b.npy", "a.npy", ".hidden"]);
        let path = folder.path().display().to_string();
        let feed = Feed::resolve(&options(&[&format!("x={path}")])).unwrap();
        assert_eq!(feed.spec.policy, InputPolicy::Cycle);
        let InputSource::Files { sets } = &feed.spec.source else {
            panic!("files are files");
        };
        assert_eq!(sets.len(), 2);
        assert_eq!(sets[0][0].input, "x");
        assert_eq!(feed.contents[0].files[0].0, "a.npy");
        let feed = Feed::resolve(&options(&[&format!("{path}/a.npy")])).unwrap();
        assert_eq!(feed.spec.policy, InputPolicy::Fixed);
    }

    #[test]
    fn sets_of_several_inputs_are_joined_or_refused() {
        let (two, three) = (folder(&["a", "b"]), folder(&["a", "b", "c"]));
        let mask = folder(&["m"]);
        let named =
            |name: &str, folder: &tempfile::TempDir| format!("{name}={}", folder.path().display());
        let feed = Feed::resolve(&options(&[&named("x", &three), &named("m", &mask)])).unwrap();
        let InputSource::Files { sets } = &feed.spec.source else {
            panic!("files are files");
        };
        assert!(sets.iter().all(|set| set.len() == 2 && set[1].input == "m"));
        let refused = Feed::resolve(&options(&[&named("x", &two), &named("y", &three)]));
        assert!(
            refused
                .unwrap_err()
                .what
                .contains("2 files where another has 3")
        );
    }

    #[test]
    fn policies_need_something_to_work_on() {
        let mut cycle = options(&[]);
        cycle.input_policy = Some(crate::options::inputs::PolicyChoice::Cycle);
        assert_eq!(Feed::resolve(&cycle).unwrap_err().exit, Exit::USAGE);
        let missing = Feed::resolve(&options(&["/nonexistent/x.npy"])).unwrap_err();
        assert!(missing.what.contains("/nonexistent/x.npy"));
    }
}
