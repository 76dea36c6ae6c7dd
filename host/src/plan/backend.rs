//! Which backend and which library of it a case gets, from what the board offers.

use std::ffi::OsString;
use std::path::PathBuf;

use edgedyno_shared::case::RuntimeRef;
use edgedyno_shared::device::{
    BackendInfo, DeviceInfo, RuntimeFacts, RuntimeFound, RuntimeVerdict,
};

use crate::board::local::there;
use crate::exit::CommandError;
use crate::near;

/// The backend that is chosen where it has a library.
const PREFERRED: &str = "onnxruntime";

/// Variables that name a library of it; the first that is set counts. The agent reads them too, but one
/// that runs already has those of the command that started it.
const VARIABLES: [&str; 2] = ["EDGEDYNO_ONNXRUNTIME", "ORT_DYLIB_PATH"];

/// A library asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuntimeWish {
    File(PathBuf),
    Version(String),
}

impl RuntimeWish {
    /// A path when it looks like one or is one, else a version. A path on another machine means a file there,
    /// and only there can it be looked at.
    pub fn parse(text: &str, is_remote: bool) -> Result<Self, CommandError> {
        let path = PathBuf::from(text);
        if is_remote {
            return match text.contains('/') {
                false => Ok(Self::Version(text.to_owned())),
                true if path.is_absolute() => Ok(Self::File(path)),
                true => Err(
                    CommandError::usage(format!("runtime `{text}` is not a whole path"))
                        .hint("a library on another board is named by its path there, from `/` on"),
                ),
            };
        }
        if !text.contains('/') && !path.is_file() {
            return Ok(Self::Version(text.to_owned()));
        }
        std::fs::canonicalize(&path).map(Self::File).map_err(|why| {
            CommandError::usage(format!("runtime `{text}` cannot be read"))
                .because(why)
                .hint("`edgedyno runtime list` shows the libraries found")
        })
    }
}

/// The library file that the environment names, where nothing else was chosen. A folder is searched by
/// the agent.
pub fn wish_of_environment(
    named: Option<&str>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<RuntimeWish>, CommandError> {
    if named.is_some_and(|name| name != PREFERRED) {
        return Ok(None);
    }
    let set = |name: &&str| variable(name).filter(|value| !value.is_empty());
    let Some(name) = VARIABLES.iter().find(|name| set(name).is_some()) else {
        return Ok(None);
    };
    let path = PathBuf::from(set(name).unwrap_or_default());
    match std::fs::canonicalize(&path) {
        Ok(folder) if folder.is_dir() => Ok(None),
        Ok(file) => Ok(Some(RuntimeWish::File(file))),
        Err(why) => {
            let what = format!("{name} names `{}`, which cannot be read", path.display());
            Err(CommandError::usage(what)
                .because(why)
                .hint(format!("unset {name}, or choose with --runtime")))
        }
    }
}

/// Chooses the backend: the one named, else the preferred one with a library, else what is built in.
pub fn choose_backend<'a>(
    device: &'a DeviceInfo,
    named: Option<&str>,
    wish: Option<&RuntimeWish>,
    board: &str,
) -> Result<&'a BackendInfo, CommandError> {
    let find = |name: &str| device.backends.iter().find(|backend| backend.name == name);
    if let Some(name) = named.or(wish.map(|_| PREFERRED)) {
        return find(name).ok_or_else(|| no_such_backend(device, name));
    }
    let preferred = find(PREFERRED).filter(|backend| usable(backend).next().is_some());
    let built_in = || device.backends.iter().find(|b| b.built_in && !b.simulated);
    preferred.or_else(built_in).ok_or_else(|| {
        CommandError::usage("no backend of this board can run a model")
            .cause("no ONNX Runtime was found, and the agent is built without a runtime")
            .hint(format!(
                "`edgedyno runtime install {PREFERRED}{}`",
                there(board)
            ))
    })
}

/// A note when nobody chose the built-in runtime and it is used all the same.
pub fn built_in_note(backend: &BackendInfo, named: Option<&str>, board: &str) -> Option<String> {
    (named.is_none() && backend.built_in).then(|| {
        let version = backend.version.as_deref().unwrap_or_default();
        let name = format!("{} {version}", backend.name);
        let there = there(board);
        format!(
            "no ONNX Runtime found: measuring on the built-in runtime {}; \
             `edgedyno runtime install onnxruntime{there}` fetches one",
            name.trim()
        )
    })
}

/// Chooses the library of a backend; none for one that is built in.
pub fn choose_runtime<'a>(
    backend: &'a BackendInfo,
    wish: Option<&RuntimeWish>,
    probed: Option<&'a RuntimeFound>,
    board: &str,
) -> Result<Option<(&'a str, RuntimeRef)>, CommandError> {
    match (wish, probed) {
        (None, _) if backend.built_in => Ok(None),
        (Some(_), _) if backend.built_in => Err(CommandError::usage(format!(
            "backend {} is built in and loads no library",
            backend.name
        ))
        .hint("leave out --runtime, or choose another --backend")),
        (Some(RuntimeWish::File(_)), Some(found)) => match &found.verdict {
            RuntimeVerdict::Usable(facts) => Ok(Some((&found.path, reference(facts)))),
            RuntimeVerdict::Refused { reason, hint, .. } => Err(CommandError::usage(format!(
                "`{}` cannot be used as a runtime of {}",
                found.path, backend.name
            ))
            .cause(reason)
            .hint_if((!hint.is_empty()).then(|| hint.clone()))),
        },
        (Some(RuntimeWish::Version(version)), _) => {
            let of_version =
                |(_, facts): &(&str, &RuntimeFacts)| is_version(&facts.version, version);
            let found = usable(backend).find(of_version);
            let found = found.ok_or_else(|| no_such_version(backend, version, board))?;
            Ok(Some((found.0, reference(found.1))))
        }
        (None | Some(RuntimeWish::File(_)), _) => {
            let first = usable(backend)
                .next()
                .ok_or_else(|| no_runtime(backend, board))?;
            Ok(Some((first.0, reference(first.1))))
        }
    }
}

fn usable(backend: &BackendInfo) -> impl Iterator<Item = (&str, &RuntimeFacts)> {
    backend
        .runtimes
        .iter()
        .filter_map(|found| match &found.verdict {
            RuntimeVerdict::Usable(facts) if facts.sha256.is_some() => {
                Some((found.path.as_str(), facts))
            }
            RuntimeVerdict::Usable(_) | RuntimeVerdict::Refused { .. } => None,
        })
}

fn reference(facts: &RuntimeFacts) -> RuntimeRef {
    RuntimeRef {
        version: facts.version.clone(),
        sha256: facts.sha256.expect("only hashed libraries are usable"),
    }
}

/// `1.22` means any 1.22.x.
fn is_version(found: &str, wanted: &str) -> bool {
    found
        .strip_prefix(wanted)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-', '+']))
}

fn no_such_backend(device: &DeviceInfo, name: &str) -> CommandError {
    let names: Vec<&str> = device.backends.iter().map(|b| b.name.as_str()).collect();
    let error = CommandError::usage(format!("there is no backend `{name}` on this board"));
    let near = near::matches(name, names.iter().copied());
    error.hint(match near.first() {
        Some(near) => format!("did you mean {near}? It has {}", names.join(", ")),
        None => format!("it has {}", names.join(", ")),
    })
}

fn no_such_version(backend: &BackendInfo, version: &str, board: &str) -> CommandError {
    let found: Vec<&str> = usable(backend)
        .map(|(_, facts)| facts.version.as_str())
        .collect();
    let error = CommandError::usage(format!("no {} {version} was found", backend.name));
    let error = match found.as_slice() {
        [] => error,
        found => error.cause(format!("found: {}", found.join(", "))),
    };
    error.hint(format!(
        "`edgedyno runtime install {}=={version}{}`, or name its file with --runtime PATH",
        backend.name,
        there(board)
    ))
}

fn no_runtime(backend: &BackendInfo, board: &str) -> CommandError {
    let mut error = CommandError::usage(format!("no library of {} was found", backend.name));
    for found in &backend.runtimes {
        if let RuntimeVerdict::Refused { reason, .. } = &found.verdict {
            error = error.cause(reason);
        }
    }
    error.hint(format!(
        "`edgedyno runtime install {}{}`, or name its file with --runtime PATH",
        backend.name,
        there(board)
    ))
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::ids::{BootId, BuildId, Sha256};

    use super::*;

    fn backend(name: &str, built_in: bool, runtimes: Vec<RuntimeFound>) -> BackendInfo {
        BackendInfo {
            name: name.into(),
            summary: String::new(),
            simulated: name == "fake",
            built_in,
            formats: Vec::new(),
            version: built_in.then(|| "0.27".into()),
            runtimes,
        }
    }

    fn library(version: &str) -> RuntimeFound {
        RuntimeFound {
            path: format!("/lib/{version}.so"),
            origin: "test".into(),
            verdict: RuntimeVerdict::Usable(RuntimeFacts {
                version: version.into(),
                sha256: Some(Sha256([version.len() as u8; 32])),
                build: None,
                build_id: None,
                providers: Vec::new(),
            }),
        }
    }

    fn refused(path: &str, reason: &str) -> RuntimeFound {
        RuntimeFound {
            path: path.into(),
            origin: "test".into(),
            verdict: RuntimeVerdict::Refused {
                code: "not_a_library".into(),
                reason: reason.into(),
                hint: "name the library itself".into(),
            },
        }
    }

    fn device(libraries: Vec<RuntimeFound>) -> DeviceInfo {
        DeviceInfo {
            agent_version: String::new(),
            build: BuildId(String::new()),
            boot: BootId(1),
            os: "linux".into(),
            arch: "x86_64".into(),
            cpus: Vec::new(),
            allowed_cpus: vec![0, 1],
            memory_total: None,
            readiness: edgedyno_shared::device::Readiness::default(),
            facts: Vec::new(),
            backends: vec![
                backend("fake", true, Vec::new()),
                backend("rten", true, Vec::new()),
                backend("onnxruntime", false, libraries),
            ],
        }
    }

    #[test]
    fn a_library_is_preferred_and_its_absence_said() {
        let with = device(vec![library("1.22.0")]);
        let chosen = choose_backend(&with, None, None, "local").unwrap();
        assert_eq!(chosen.name, "onnxruntime");
        assert_eq!(built_in_note(chosen, None, "local"), None);
        let without = device(vec![refused("/x", "it is text")]);
        let chosen = choose_backend(&without, None, None, "local").unwrap();
        assert_eq!(chosen.name, "rten");
        assert!(
            built_in_note(chosen, None, "local")
                .unwrap()
                .contains("rten 0.27")
        );
        assert_eq!(built_in_note(chosen, Some("rten"), "local"), None);
        let there = built_in_note(chosen, None, "x5").unwrap();
        assert!(there.contains("`edgedyno runtime install onnxruntime --board x5`"));
    }

    #[test]
    fn an_unknown_backend_lists_those_that_exist() {
        let error =
            choose_backend(&device(Vec::new()), Some("onnxrutime"), None, "x5").unwrap_err();
        let hint = error.hint.unwrap();
        assert!(hint.contains("did you mean onnxruntime?"), "{hint}");
        assert!(hint.contains("fake, rten, onnxruntime"), "{hint}");
    }

    #[test]
    fn a_library_named_by_the_environment_is_a_wish() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let library = folder.join("libonnxruntime.so");
        std::fs::write(&library, "").unwrap();
        let wish = |named, first: &str, second: &str| {
            let (first, second) = (OsString::from(first), OsString::from(second));
            wish_of_environment(named, |name| match name {
                "EDGEDYNO_ONNXRUNTIME" => Some(first.clone()),
                "ORT_DYLIB_PATH" => Some(second.clone()),
                _ => None,
            })
        };
        let path = library.to_str().unwrap();
        let expected = Some(RuntimeWish::File(library.clone()));
        assert_eq!(wish(None, "", path).unwrap(), expected);
        assert_eq!(wish(Some("onnxruntime"), path, "/no").unwrap(), expected);
        assert_eq!(wish(Some("rten"), path, path).unwrap(), None);
        assert_eq!(wish(None, "", "").unwrap(), None);
        assert_eq!(wish(None, folder.to_str().unwrap(), "").unwrap(), None);
        let error = wish(None, "", "/no/such.so").unwrap_err();
        assert!(error.to_string().contains("ORT_DYLIB_PATH"), "{error}");
    }

    #[test]
    fn a_path_on_another_board_is_not_looked_for_here() {
        let there = RuntimeWish::parse("/opt/vendor/libonnxruntime.so", true).unwrap();
        let path = PathBuf::from("/opt/vendor/libonnxruntime.so");
        assert_eq!(there, RuntimeWish::File(path));
        assert!(RuntimeWish::parse("/opt/vendor/libonnxruntime.so", false).is_err());
        let version = RuntimeWish::parse("1.22", true).unwrap();
        assert_eq!(version, RuntimeWish::Version("1.22".into()));
        let error = RuntimeWish::parse("lib/libonnxruntime.so", true).unwrap_err();
        assert!(error.hint.unwrap().contains("path there"));
    }

    #[test]
    fn a_version_is_found_by_its_beginning() {
        let device = device(vec![library("1.20.1"), library("1.22.0")]);
        let backend = &device.backends[2];
        let chosen = |version: &str| {
            let wish = RuntimeWish::Version(version.into());
            let chosen = choose_runtime(backend, Some(&wish), None, "local");
            chosen.map(|c| c.unwrap().1.version)
        };
        assert_eq!(chosen("1.22").unwrap(), "1.22.0");
        assert_eq!(chosen("1.20.1").unwrap(), "1.20.1");
        let error = chosen("1.2").unwrap_err();
        assert_eq!(error.causes, ["found: 1.20.1, 1.22.0"]);
        assert!(error.hint.unwrap().contains("runtime install"));
    }

    #[test]
    fn hints_go_to_the_board_that_lacks_something() {
        let mut bare = device(Vec::new());
        bare.backends.remove(1);
        let wish = RuntimeWish::Version("1.9".into());
        let hints = |board: &str| {
            let library = |wish| choose_runtime(&bare.backends[1], wish, None, board).unwrap_err();
            let backend = choose_backend(&bare, None, None, board).unwrap_err();
            [backend, library(None), library(Some(&wish))].map(|error| error.hint.unwrap())
        };
        let install = "`edgedyno runtime install onnxruntime";
        let ends = ["", "", "==1.9"];
        for (hint, version) in hints("x5").iter().zip(ends) {
            let whole = format!("{install}{version} --board x5`");
            assert!(hint.starts_with(&whole), "{hint}");
        }
        for (hint, version) in hints("local").iter().zip(ends) {
            assert!(hint.starts_with(&format!("{install}{version}`")), "{hint}");
        }
    }

    #[test]
    fn a_library_that_was_refused_says_why() {
        let device = device(Vec::new());
        let found = refused("/x.so", "it is text");
        let wish = RuntimeWish::File("/x.so".into());
        let error =
            choose_runtime(&device.backends[2], Some(&wish), Some(&found), "x5").unwrap_err();
        assert_eq!(error.causes, ["it is text"]);
        assert_eq!(error.hint.as_deref(), Some("name the library itself"));
    }

    #[test]
    fn a_built_in_runtime_takes_no_library() {
        let device = device(Vec::new());
        let wish = RuntimeWish::Version("1".into());
        assert!(choose_runtime(&device.backends[1], Some(&wish), None, "x5").is_err());
        assert_eq!(
            choose_runtime(&device.backends[1], None, None, "x5").unwrap(),
            None
        );
    }
}
