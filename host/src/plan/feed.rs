//! Inputs of a case from what was asked for: a generator, or files put together into sets.

use std::fs;
use std::path::{Path, PathBuf};

use edgedyno_shared::case::{Generator, InputFile, InputPolicy, InputSource, InputSpec};

use crate::board::content::{self, Content};
use crate::exit::CommandError;
use crate::model::tensors::{self, Input, Values};
use crate::options::inputs::InputOptions;
use crate::whole_file;

/// What trials are fed with, and the files that hold it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feed {
    pub spec: InputSpec,
    pub contents: Vec<Content>,
    /// Arrays of `.npz` files, to be written before they are used.
    pub unpacked: Vec<Unpacked>,
}

/// A file that is still to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpacked {
    pub path: PathBuf,
    pub bytes: Vec<u8>,
}

/// One tensor each for some inputs.
type Set = Vec<InputFile>;

impl Feed {
    /// Reads and hashes the files named, or draws values. Arrays of an `.npz` file will lie in `folder`.
    pub fn resolve(options: &InputOptions, folder: &Path) -> Result<Self, CommandError> {
        let chosen = options.input_policy.map(InputPolicy::from);
        if options.inputs.is_empty() {
            return generated(options, chosen);
        }
        let mut reader = Reader {
            folder,
            contents: Vec::new(),
            unpacked: Vec::new(),
        };
        let parts = options.inputs.iter().map(|text| reader.part(text));
        let parts = parts.collect::<Result<Vec<Vec<Set>>, _>>()?;
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
        Ok(Self {
            spec,
            contents: reader.contents,
            unpacked: reader.unpacked,
        })
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
        unpacked: Vec::new(),
    })
}

/// Gathers files while it reads them.
struct Reader<'a> {
    folder: &'a Path,
    contents: Vec<Content>,
    unpacked: Vec<Unpacked>,
}

impl Reader<'_> {
    /// Sets that one `--input` gives: as many as a folder has files.
    fn part(&mut self, text: &str) -> Result<Vec<Set>, CommandError> {
        let (input, path) = split(text);
        let mut sets = Vec::new();
        for file in files(&path)? {
            let found = tensors::read_inputs(&file)?;
            let is_npz = file
                .extension()
                .is_some_and(|e| e.eq_ignore_ascii_case("npz"));
            sets.push(match is_npz {
                true => self.npz(input, &file, found)?,
                false => vec![self.file(input, &file)?],
            });
        }
        if sets.is_empty() {
            let what = format!("folder `{}` holds no file", path.display());
            return Err(CommandError::usage(what).hint("put .npy, .npz or raw files into it"));
        }
        Ok(sets)
    }

    /// A file that the agent reads as it is.
    fn file(&mut self, input: &str, file: &Path) -> Result<InputFile, CommandError> {
        let content = Content::of_file(file).map_err(|why| unreadable(file, why))?;
        let sha256 = content.sha256;
        self.add(content);
        Ok(InputFile {
            input: input.to_owned(),
            sha256,
        })
    }

    /// The arrays of an `.npz` file, each an `.npy` file of its own named by its content.
    fn npz(&mut self, input: &str, file: &Path, found: Vec<Input>) -> Result<Set, CommandError> {
        if !input.is_empty() {
            let what = format!("`{}` names its inputs itself", file.display());
            return Err(CommandError::usage(what).hint(format!("leave out `{input}=`")));
        }
        let mut set = Set::new();
        for Input { name, values, .. } in found {
            let Values::Array(array) = values else {
                continue;
            };
            let mut bytes = Vec::new();
            array
                .write_npy(&mut bytes)
                .map_err(|why| unreadable(file, why))?;
            let sha256 = content::sha256(&bytes);
            let path = self.folder.join(format!("{sha256}.npy"));
            self.add(Content {
                sha256,
                files: vec![(format!("{name}.npy"), path.clone())],
            });
            self.unpacked.push(Unpacked { path, bytes });
            set.push(InputFile {
                input: name,
                sha256,
            });
        }
        Ok(set)
    }

    fn add(&mut self, content: Content) {
        if self
            .contents
            .iter()
            .all(|known| known.sha256 != content.sha256)
        {
            self.contents.push(content);
        }
    }
}

impl Unpacked {
    /// Writes the file, unless it is there: its name is its content.
    pub fn write(&self) -> std::io::Result<()> {
        if self.path.exists() {
            return Ok(());
        }
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        whole_file::write(&self.path, &self.bytes)
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
    use crate::model::array::{Array, DType};

    fn options(inputs: &[&str]) -> InputOptions {
        InputOptions {
            inputs: inputs.iter().map(|text| (*text).to_owned()).collect(),
            input_policy: None,
            generator: None,
            seed: 3,
        }
    }

    fn resolve(inputs: &[&str]) -> Result<Feed, CommandError> {
        Feed::resolve(&options(inputs), Path::new("/unpacked"))
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
        let folder = folder(&["b.bin", "a.bin", ".hidden"]);
        let path = folder.path().display().to_string();
        let feed = resolve(&[&format!("x={path}")]).unwrap();
        assert_eq!(feed.spec.policy, InputPolicy::Cycle);
        let InputSource::Files { sets } = &feed.spec.source else {
            panic!("files are files");
        };
        assert_eq!(sets.len(), 2);
        assert_eq!(sets[0][0].input, "x");
        assert_eq!(feed.contents[0].files[0].0, "a.bin");
        let feed = resolve(&[&format!("{path}/a.bin")]).unwrap();
        assert_eq!(feed.spec.policy, InputPolicy::Fixed);
    }

    #[test]
    fn sets_of_several_inputs_are_joined_or_refused() {
        let (two, three) = (folder(&["a", "b"]), folder(&["a", "b", "c"]));
        let mask = folder(&["m"]);
        let named =
            |name: &str, folder: &tempfile::TempDir| format!("{name}={}", folder.path().display());
        let feed = resolve(&[&named("x", &three), &named("m", &mask)]).unwrap();
        let InputSource::Files { sets } = &feed.spec.source else {
            panic!("files are files");
        };
        assert!(sets.iter().all(|set| set.len() == 2 && set[1].input == "m"));
        let refused = resolve(&[&named("x", &two), &named("y", &three)]);
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
        assert_eq!(
            Feed::resolve(&cycle, Path::new("")).unwrap_err().exit,
            Exit::USAGE
        );
        let missing = resolve(&["/nonexistent/x.npy"]).unwrap_err();
        assert!(missing.what.contains("/nonexistent/x.npy"));
    }

    #[test]
    fn an_npz_file_is_a_set_of_named_arrays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in.npz");
        let mut archive = zip::ZipWriter::new(fs::File::create(&path).unwrap());
        for name in ["x", "mask"] {
            let options = zip::write::SimpleFileOptions::default();
            archive.start_file(format!("{name}.npy"), options).unwrap();
            let array = Array::new(DType::U8, vec![2], vec![1, name.len() as u8]).unwrap();
            array.write_npy(&mut archive).unwrap();
        }
        archive.finish().unwrap();
        let feed = resolve(&[&path.display().to_string()]).unwrap();
        let InputSource::Files { sets } = &feed.spec.source else {
            panic!("files are files");
        };
        let names: Vec<&str> = sets[0].iter().map(|file| file.input.as_str()).collect();
        assert_eq!(names, ["x", "mask"]);
        assert_eq!(feed.unpacked.len(), 2);
        assert!(feed.unpacked[0].path.starts_with("/unpacked"));
        assert_eq!(content::sha256(&feed.unpacked[1].bytes), sets[0][1].sha256);
        let named = format!("x={}", path.display());
        assert_eq!(resolve(&[&named]).unwrap_err().exit, Exit::USAGE);
    }
}
