use std::io::Write;
use std::process::Command;

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::*;

const LIBRARY: &str = "libonnxruntime.so.9.8.7";
const PROVIDER: &str = "libonnxruntime_providers_shared.so";

/// Enough of an ELF file for `e_machine`, and something to compress.
fn elf(machine: u8, rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[18] = machine;
    bytes.extend_from_slice(rest);
    bytes
}

const X86_64: u8 = 62;

fn zip_with(path: &Path, members: &[(&str, &[u8])]) {
    let mut zip = ZipWriter::new(File::create(path).unwrap());
    for (name, bytes) in members {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap();
}

/// A wheel as the published ones are laid out, for a version that does not exist.
fn wheel(folder: &Path, version: &str, machine: u8) -> PathBuf {
    let path = folder.join(format!(
        "onnxruntime-{version}-cp311-cp311-linux_x86_64.whl"
    ));
    let metadata =
        format!("Metadata-Version: 2.1\nName: onnxruntime\nVersion: {version}\n\nName: no\n");
    zip_with(
        &path,
        &[
            ("onnxruntime/__init__.py", b"pass"),
            (
                &format!("onnxruntime/capi/libonnxruntime.so.{version}"),
                &elf(machine, b"library"),
            ),
            (
                &format!("onnxruntime/capi/{PROVIDER}"),
                &elf(machine, b"provider"),
            ),
            (
                "onnxruntime/capi/onnxruntime_pybind11_state.so",
                b"not wanted",
            ),
            (
                "onnxruntime/capi/deep/libonnxruntime.so.0.0.1",
                b"not wanted",
            ),
            (
                &format!("onnxruntime-{version}.dist-info/METADATA"),
                metadata.as_bytes(),
            ),
        ],
    );
    path
}

/// A folder for downloads and a cache in it.
fn installer() -> (tempfile::TempDir, Installer) {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path().join("cache"));
    let installer = Installer {
        cache,
        architecture: "x86_64".into(),
        python: folder.path().join("python"),
        platforms: Vec::new(),
    };
    (folder, installer)
}

fn names_in(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn spec(text: &str) -> Spec {
    text.parse().unwrap()
}

fn install_from(installer: &Installer, path: &Path) -> Result<Installed, RuntimeError> {
    match installer.install_from(path, &spec("onnxruntime"), &mut |_| {})? {
        Outcome::Installed(installed) => Ok(installed),
        Outcome::AlreadyThere(_) => panic!("nothing was there"),
    }
}

/// A stand-in for `python3 -m pip download ... --dest DIR SPEC`.
///
/// Written by another process: a descriptor of ours that is open for writing while a parallel test
/// forks would make the script busy.
fn fake_python(installer: &Installer, body: &str) {
    let script = format!(
        "#!/bin/sh\nwhile [ \"$1\" != --dest ]; do shift; done\ndest=$2\nspec=$3\n{body}\n"
    );
    let status = Command::new("sh")
        .args([
            "-c",
            "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"",
            "sh",
            &script,
        ])
        .arg(&installer.python)
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn a_wheel_leaves_its_libraries_and_a_note() {
    let (folder, installer) = installer();
    let mut steps = Vec::new();
    let wheel = wheel(folder.path(), "9.8.7", X86_64);
    let outcome = installer
        .install_from(&wheel, &spec("onnxruntime==9.8.7"), &mut |step| {
            steps.push(step);
        })
        .unwrap();
    let Outcome::Installed(installed) = outcome else {
        panic!("{outcome:?}")
    };
    let place = installer.cache.runtimes().join("onnxruntime/9.8.7");
    assert_eq!(installed.path, place.join(LIBRARY));
    assert_eq!(names_in(&place), ["installed.json", LIBRARY, PROVIDER]);
    assert_eq!(installed.sha256, Digest::of(&elf(X86_64, b"library")));
    assert_eq!(installed.bytes, (4096 + 7) + (4096 + 8));
    assert!(!installed.known, "no such version was published");
    assert_eq!(
        steps,
        [
            Step::Copying(LIBRARY.into()),
            Step::Copying(PROVIDER.into())
        ]
    );
    assert_eq!(names_in(&installer.cache.runtimes()), ["onnxruntime"]);
    match &installer.cache.list().unwrap()[..] {
        [Entry::Installed(listed)] => assert_eq!(*listed, installed),
        entries => panic!("{entries:?}"),
    }
}

#[test]
fn versions_stand_side_by_side_newest_first_and_one_is_replaced_whole() {
    let (folder, installer) = installer();
    for version in ["9.8.7", "9.10.0", "9.8.7"] {
        install_from(&installer, &wheel(folder.path(), version, X86_64)).unwrap();
    }
    let versions: Vec<String> = installer
        .cache
        .list()
        .unwrap()
        .into_iter()
        .map(|entry| match entry {
            Entry::Installed(installed) => installed.version,
            Entry::Broken { why, .. } => panic!("{why}"),
        })
        .collect();
    assert_eq!(versions, ["9.10.0", "9.8.7"]);
    assert_eq!(names_in(&installer.cache.runtimes()), ["onnxruntime"]);
}

#[test]
fn a_published_version_with_other_bytes_is_refused() {
    let (folder, installer) = installer();
    let error = install_from(&installer, &wheel(folder.path(), "1.32.0", X86_64)).unwrap_err();
    match &error {
        RuntimeError::Mismatch { file, version, .. } => {
            assert_eq!(
                (file.as_str(), version.as_str()),
                ("libonnxruntime.so.1.32.0", "1.32.0")
            );
        }
        error => panic!("{error}"),
    }
    assert!(installer.cache.list().unwrap().is_empty());
    assert!(names_in(&installer.cache.runtimes()).is_empty());
}

#[test]
fn a_library_for_another_machine_is_refused() {
    let (folder, installer) = installer();
    let error = install_from(&installer, &wheel(folder.path(), "9.8.7", 183)).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("is built for aarch64, x86_64 is needed"),
        "{error}"
    );
}

#[test]
fn files_that_are_no_wheel_are_named_with_the_reason() {
    let (folder, installer) = installer();
    let path = folder.path().join("x.whl");
    fs::write(&path, "text").unwrap();
    assert!(matches!(
        install_from(&installer, &path),
        Err(RuntimeError::Wheel { .. })
    ));
    zip_with(&path, &[("numpy/__init__.py", b"")]);
    let error = install_from(&installer, &path).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("no onnxruntime/capi/libonnxruntime.so"),
        "{error}"
    );
    let tar = folder.path().join("onnxruntime-linux-x64-9.8.7.tar.xz");
    fs::write(&tar, "").unwrap();
    assert!(matches!(
        install_from(&installer, &tar),
        Err(RuntimeError::Unsupported { .. })
    ));
    let none = folder.path().join("none.whl");
    assert!(matches!(
        install_from(&installer, &none),
        Err(RuntimeError::Missing { .. })
    ));
}

#[test]
fn a_file_of_another_version_than_the_one_asked_for_is_refused() {
    let (folder, installer) = installer();
    let wheel = wheel(folder.path(), "9.8.7", X86_64);
    let from = |text| installer.install_from(&wheel, &spec(text), &mut |_| {});
    let error = from("onnxruntime==9.8.6").unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("holds version 9.8.7, not 9.8.6"),
        "{error}"
    );
    assert!(names_in(&installer.cache.runtimes()).is_empty());
    assert!(from("onnxruntime==9.8").is_ok());
}

#[test]
fn another_package_of_the_same_library_stands_beside_the_plain_one() {
    let (folder, installer) = installer();
    let path = folder.path().join("gpu.whl");
    zip_with(
        &path,
        &[
            (
                "onnxruntime/capi/libonnxruntime.so.9.8.7",
                &elf(X86_64, b"gpu"),
            ),
            (
                "onnxruntime_gpu-9.8.7.dist-info/METADATA",
                b"Name: onnxruntime-gpu\nVersion: 9.8.7\n\n",
            ),
        ],
    );
    let gpu = install_from(&installer, &path).unwrap();
    assert_eq!(
        (gpu.package.as_str(), gpu.version.as_str()),
        ("onnxruntime", "9.8.7+gpu")
    );
    let plain = install_from(&installer, &wheel(folder.path(), "9.8.7", X86_64)).unwrap();
    assert_ne!(plain.path, gpu.path);
    assert_eq!(installer.cache.list().unwrap().len(), 2);
}

/// Members of a tar archive: a path, and the bytes of a file or the aim of a link.
fn tar_gz(path: &Path, members: &[(&str, Result<&[u8], &str>)]) {
    let file = File::create(path).unwrap();
    let packed = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    let mut tar = tar::Builder::new(packed);
    for (name, content) in members {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        match content {
            Ok(bytes) => {
                header.set_size(bytes.len() as u64);
                tar.append_data(&mut header, name, *bytes).unwrap();
            }
            Err(aim) => {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_size(0);
                tar.append_link(&mut header, name, aim).unwrap();
            }
        }
    }
    tar.into_inner().unwrap().finish().unwrap();
}

#[test]
fn an_archive_gives_the_library_for_this_machine() {
    let (folder, installer) = installer();
    let path = folder.path().join("onnxruntime-9.8.7.tgz");
    let (ours, theirs) = (elf(X86_64, b"ours"), elf(183, b"theirs"));
    tar_gz(
        &path,
        &[
            ("o/lib/libonnxruntime.so", Err("libonnxruntime.so.9.8.7")),
            ("o/lib/libonnxruntime.so.9.8.7", Ok(&ours)),
            ("o/lib/libonnxruntime_providers_shared.so", Ok(&ours)),
            ("o/arm64/libonnxruntime.so.9.8.7", Ok(&theirs)),
            ("o/include/onnxruntime_c_api.h", Ok(b"int x;")),
        ],
    );
    let installed = install_from(&installer, &path).unwrap();
    assert_eq!(installed.version, "9.8.7");
    assert_eq!(installed.sha256, Digest::of(&ours));
    let place = installer.cache.runtimes().join("onnxruntime/9.8.7");
    assert_eq!(names_in(&place), ["installed.json", LIBRARY, PROVIDER]);
}

#[test]
fn an_archive_without_a_library_for_this_machine_says_what_it_has() {
    let (folder, installer) = installer();
    let path = folder.path().join("x.tar.gz");
    tar_gz(&path, &[("o/libonnxruntime.so.9.8.7", Ok(&elf(183, b"")))]);
    let error = install_from(&installer, &path).unwrap_err();
    assert!(
        matches!(error, RuntimeError::Architecture { .. }),
        "{error}"
    );
    tar_gz(&path, &[("o/readme", Ok(b"text"))]);
    let error = install_from(&installer, &path).unwrap_err();
    assert!(
        error.to_string().contains("no libonnxruntime.so in it"),
        "{error}"
    );
    let mut cut = fs::read(&path).unwrap();
    cut.truncate(cut.len() / 2);
    fs::write(&path, cut).unwrap();
    assert!(matches!(
        install_from(&installer, &path),
        Err(RuntimeError::Archive { .. })
    ));
    assert!(names_in(&installer.cache.runtimes()).is_empty());
}

#[test]
fn what_a_killed_installation_left_is_removed_by_the_next() {
    let (folder, installer) = installer();
    let runtimes = installer.cache.runtimes();
    // No process has this number: it is beyond the kernel's limit.
    for left in [".tmp-4194999-0", &format!(".tmp-{}-77", std::process::id())] {
        fs::create_dir_all(runtimes.join(left)).unwrap();
    }
    install_from(&installer, &wheel(folder.path(), "9.8.7", X86_64)).unwrap();
    let own = format!(".tmp-{}-77", std::process::id());
    assert_eq!(names_in(&runtimes), [own.as_str(), "onnxruntime"]);
}

#[test]
fn the_newest_version_for_this_machine_is_found() {
    let (folder, installer) = installer();
    assert_eq!(installer.find(&spec("onnxruntime")), None);
    for version in ["9.8.7", "9.10.0"] {
        install_from(&installer, &wheel(folder.path(), version, X86_64)).unwrap();
    }
    let version = |text| installer.find(&spec(text)).map(|found| found.version);
    assert_eq!(version("onnxruntime").as_deref(), Some("9.10.0"));
    assert_eq!(version("onnxruntime==9.8.7").as_deref(), Some("9.8.7"));
    assert_eq!(version("onnxruntime==1.0.0"), None);
    let board = Installer {
        architecture: "aarch64".into(),
        ..installer
    };
    assert_eq!(board.find(&spec("onnxruntime")), None);
}

#[test]
fn pip_is_watched_while_it_fetches() {
    let (folder, installer) = installer();
    let wheel = wheel(folder.path(), "9.8.7", X86_64);
    fake_python(
        &installer,
        &format!(
            "echo Collecting $spec; echo '  Downloading o-9.8.7.whl (27.8 MB)'\n\
             head -c 5000 /dev/zero > $TMPDIR/part; sleep 1; cp {} $dest/",
            wheel.display()
        ),
    );
    let mut steps = Vec::new();
    let spec = spec("onnxruntime");
    installer
        .install(&spec, &mut |step| steps.push(step))
        .unwrap();
    let found = Step::Found {
        file: "o-9.8.7.whl".into(),
        size: "27.8 MB".into(),
    };
    assert_eq!(steps[..2], [Step::Downloading(spec), found]);
    assert!(steps.contains(&Step::Received(5000)), "{steps:?}");
}

#[test]
fn a_damaged_wheel_installs_nothing() {
    let (folder, installer) = installer();
    let path = wheel(folder.path(), "9.8.7", X86_64);
    let mut bytes = fs::read(&path).unwrap();
    // The stored text of the first library, beyond its local header; the checksum no longer fits.
    let at = bytes
        .windows(16)
        .position(|window| window == b"libonnxruntime.s")
        .unwrap()
        + 30;
    bytes[at] ^= 0x55;
    fs::write(&path, bytes).unwrap();
    let error = install_from(&installer, &path).unwrap_err();
    assert!(matches!(error, RuntimeError::Wheel { .. }), "{error}");
    assert!(names_in(&installer.cache.runtimes()).is_empty());
}

#[test]
fn a_bare_library_comes_with_the_providers_beside_it() {
    let (folder, installer) = installer();
    let library = folder.path().join(LIBRARY);
    fs::write(&library, elf(X86_64, b"own build")).unwrap();
    fs::write(folder.path().join(PROVIDER), elf(X86_64, b"provider")).unwrap();
    let installed = install_from(&installer, &library).unwrap();
    assert_eq!(
        (installed.version.as_str(), installed.known),
        ("9.8.7", false)
    );
    let place = installed.path.parent().unwrap();
    assert_eq!(names_in(place), ["installed.json", LIBRARY, PROVIDER]);
}

#[test]
fn a_library_without_a_version_in_its_name_is_asked_or_named_by_its_hash() {
    let (folder, installer) = installer();
    let library = folder.path().join("libonnxruntime.so");
    fs::write(&library, elf(X86_64, b"\0VERS_9.9.9\0")).unwrap();
    assert_eq!(install_from(&installer, &library).unwrap().version, "9.9.9");
    fs::write(&library, elf(X86_64, b"none")).unwrap();
    let version = install_from(&installer, &library).unwrap().version;
    assert!(
        version.starts_with("unversioned-") && version.len() == 12 + 8,
        "{version}"
    );
    let other = folder.path().join("libfoo.so");
    fs::write(&other, elf(X86_64, b"")).unwrap();
    assert!(matches!(
        install_from(&installer, &other),
        Err(RuntimeError::NotALibrary { .. })
    ));
}

#[test]
fn pip_is_asked_once_and_not_again_for_a_version_that_is_there() {
    let (folder, installer) = installer();
    let wheel = wheel(folder.path(), "9.8.7", X86_64);
    fake_python(
        &installer,
        &format!(
            "cp {} $dest/ && echo $spec > {}/asked",
            wheel.display(),
            folder.path().display()
        ),
    );
    let spec: Spec = "onnxruntime==9.8.7".parse().unwrap();
    let mut steps = Vec::new();
    let Outcome::Installed(first) = installer
        .install(&spec, &mut |step| steps.push(step))
        .unwrap()
    else {
        panic!("nothing was there")
    };
    assert_eq!(steps[0], Step::Downloading(spec.clone()));
    assert_eq!(
        fs::read_to_string(folder.path().join("asked")).unwrap(),
        "onnxruntime==9.8.7\n"
    );
    fs::remove_file(&installer.python).unwrap();
    let again = installer
        .install(&spec, &mut |_| panic!("no step is needed"))
        .unwrap();
    assert_eq!(again, Outcome::AlreadyThere(first.clone()));
    // A library that was changed since is not what was installed.
    fs::write(&first.path, elf(X86_64, b"changed")).unwrap();
    assert!(matches!(
        installer.install(&spec, &mut |_| {}),
        Err(RuntimeError::NoPython { .. })
    ));
}

#[test]
fn what_pip_says_is_passed_on_with_a_hint() {
    let (_folder, installer) = installer();
    let spec: Spec = "onnxruntime==0.0.1".parse().unwrap();
    let fail = |body: &str| {
        fake_python(&installer, body);
        installer.install(&spec, &mut |_| {}).unwrap_err()
    };
    let error = fail("echo \"$0: No module named pip\" >&2; exit 1");
    assert!(matches!(error, RuntimeError::NoPip { .. }));
    assert!(error.hint().contains("apt install python3-pip"));
    let error =
        fail("echo 'ERROR: No matching distribution found for onnxruntime==0.0.1' >&2; exit 1");
    assert!(matches!(error, RuntimeError::NoPackage { .. }), "{error}");
    let error = fail("echo 'ERROR: connection refused' >&2; exit 2");
    assert_eq!(
        error.to_string(),
        "pip could not download onnxruntime==0.0.1: connection refused"
    );
    assert!(matches!(fail("exit 0"), RuntimeError::Pip { .. }));
    assert!(names_in(&installer.cache.runtimes()).is_empty());
}
