//! The loader's reasons, with files made by hand and with the C library's own maths library.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use edgedyno_sys::vendor::elf::{Architecture, ElfFacts, GlibcVersion};
use edgedyno_sys::vendor::loader::{LoadError, SharedLibrary, check};

#[test]
fn a_missing_file_is_not_found() {
    let error = check(Path::new("/nowhere/libx.so"), &[]).unwrap_err();

    assert_eq!(
        error,
        LoadError::NotFound {
            path: "/nowhere/libx.so".into()
        }
    );
    assert_eq!(error.to_string(), "/nowhere/libx.so: no such file");
}

#[test]
fn text_named_as_a_library_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), b"GROUP ( /lib/libm.so.6 )\n");

    let error = SharedLibrary::open(&path, &[]).unwrap_err();

    let LoadError::NotALibrary { reason, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(reason, "the file is text");
}

#[test]
fn empty_files_folders_and_noise_are_not_libraries() {
    let folder = tempfile::tempdir().unwrap();
    for bytes in [
        &b""[..],
        b"\0\x01\x02",
        b"\x7fELF",
        b"\x7fELF\x02\x01",
        b"\x7fELF\x09\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0",
    ] {
        let path = written(folder.path(), bytes);
        let error = check(&path, &[]).unwrap_err();
        assert!(matches!(error, LoadError::NotALibrary { .. }), "{error}");
    }
    assert!(matches!(
        check(folder.path(), &[]),
        Err(LoadError::NotALibrary { .. })
    ));
}

#[test]
fn another_architecture_is_named() {
    let folder = tempfile::tempdir().unwrap();
    // A machine that no build of ours runs on: big-endian 64-bit PowerPC.
    let path = written(folder.path(), &header(2, 2, 21));

    let error = check(&path, &[]).unwrap_err();

    let LoadError::OtherArchitecture { found, wanted, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(found.to_string(), "machine 21 (64-bit), big-endian");
    assert_eq!(Some(*wanted), Architecture::of_this_program());
    assert!(error.hint().contains(&wanted.to_string()));
}

#[test]
fn the_boards_architectures_have_their_usual_names() {
    let folder = tempfile::tempdir().unwrap();
    for (class, machine, name) in [
        (2, 183, "aarch64"),
        (1, 40, "arm"),
        (2, 62, "x86-64"),
        (2, 243, "riscv64"),
    ] {
        let path = written(folder.path(), &header(class, 1, machine));
        let facts = ElfFacts::read(&path).unwrap();
        assert_eq!(facts.architecture.to_string(), name);
        assert!(facts.shared_object);
    }
}

#[test]
fn a_library_cut_short_anywhere_is_refused_before_it_is_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read(maths_library()).unwrap();
    // Behind the last loaded segment there are only sections, which nothing needs at run time.
    for length in (0..whole.len() * 9 / 10).step_by(whole.len() / 37) {
        let path = written(folder.path(), &whole[..length]);
        let error = check(&path, &[]).unwrap_err();
        assert!(
            matches!(error, LoadError::NotALibrary { .. }),
            "{length} bytes: {error}"
        );
    }
}

#[test]
fn damaged_bytes_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read(maths_library()).unwrap();
    let headers = (0..1200).step_by(7);
    // A fixed sequence of places all over the file, names, hash table and notes among them.
    let anywhere = (1..400_usize).map(|step| step.wrapping_mul(2_654_435_761) % (whole.len() - 8));
    let path = written(folder.path(), &whole);
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    for at in headers.chain(anywhere) {
        for noise in [0x00, 0x7f, 0xff] {
            file.write_all_at(&[noise; 8], at as u64).unwrap();
            let _either = check(&path, &["cos"]);
        }
        file.write_all_at(&whole[at..at + 8], at as u64).unwrap();
    }
    assert!(check(&path, &["cos"]).is_ok());
}

#[test]
fn a_program_is_not_a_library() {
    let program = std::env::current_exe().unwrap();

    let error = check(&program, &[]).unwrap_err();

    assert!(matches!(error, LoadError::NotALibrary { .. }), "{error}");
}

#[test]
fn a_library_for_a_newer_system_says_which() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = fs::read(maths_library()).unwrap();
    // The maths library needs GLIBC_2.x of the C library; replaced by a version of equal length.
    let needed = ElfFacts::read(&maths_library())
        .unwrap()
        .glibc_needed
        .unwrap();
    let name = format!("GLIBC_{needed}\0");
    let newer = format!(
        "GLIBC_{}\0",
        "9".repeat(needed.to_string().len() - 2) + ".9"
    );
    assert_eq!(name.len(), newer.len());
    replace_all(&mut bytes, name.as_bytes(), newer.as_bytes());
    let path = written(folder.path(), &bytes);

    let error = check(&path, &[]).unwrap_err();

    let LoadError::GlibcTooOld { needs, have, .. } = error else {
        panic!("{error}")
    };
    assert!(needs > have);
    assert_eq!(Some(have), GlibcVersion::of_this_program());
}

#[test]
fn facts_of_a_system_library_are_read() {
    let facts = ElfFacts::read(&maths_library()).unwrap();

    assert_eq!(Some(facts.architecture), Architecture::of_this_program());
    assert_eq!(facts.soname.as_deref(), Some("libm.so.6"));
    assert!(
        facts.needed.iter().any(|name| name == "libc.so.6"),
        "{:?}",
        facts.needed
    );
    assert!(facts.glibc_needed <= GlibcVersion::of_this_program());
    assert!(facts.build_id.is_some_and(|id| id.len() == 40));
}

#[test]
fn exported_symbols_are_found_without_opening() {
    let path = maths_library();

    for symbol in ["cos", "sqrtf", "fma"] {
        assert_eq!(
            ElfFacts::exports(&path, symbol).unwrap(),
            Some(true),
            "{symbol}"
        );
    }
    for symbol in ["OrtGetApiBase", "co", ""] {
        assert_eq!(
            ElfFacts::exports(&path, symbol).unwrap(),
            Some(false),
            "{symbol}"
        );
    }
}

#[test]
fn a_missing_symbol_is_named() {
    let path = maths_library().canonicalize().unwrap();

    let error = SharedLibrary::open(&path, &["cos", "OrtGetApiBase"]).unwrap_err();

    assert_eq!(
        error,
        LoadError::MissingSymbol {
            path,
            name: "OrtGetApiBase"
        }
    );
}

#[test]
fn a_good_library_opens_with_its_facts() {
    let library = SharedLibrary::open(&maths_library(), &["cos"]).unwrap();

    assert_eq!(library.path(), maths_library().canonicalize().unwrap());
    assert_eq!(library.facts().soname.as_deref(), Some("libm.so.6"));
}

#[test]
fn glibc_versions_are_ordered_as_numbers() {
    let version = |text| GlibcVersion::parse(text).unwrap();

    assert!(version("2.9") < version("2.28"));
    assert!(version("2.2.5") < version("2.3"));
    assert_eq!(version("2.28").to_string(), "2.28");
    for text in ["PRIVATE", "ABI_DT_RELR", "", "2", "2.x", "2.1.2.3"] {
        assert_eq!(GlibcVersion::parse(text), None, "{text}");
    }
}

fn written(folder: &Path, bytes: &[u8]) -> PathBuf {
    let path = folder.join("libvendor.so");
    fs::write(&path, bytes).expect("a temporary folder can be written");
    path
}

/// An ELF header alone: a shared object with no segments.
fn header(class: u8, order: u8, machine: u16) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, order, 1]);
    let put = |number: u16| {
        if order == 1 {
            number.to_le_bytes()
        } else {
            number.to_be_bytes()
        }
    };
    bytes[16..18].copy_from_slice(&put(3));
    bytes[18..20].copy_from_slice(&put(machine));
    bytes
}

/// The file of the maths library that this process has open.
fn maths_library() -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").expect("proc is mounted");
    let folder_of = |name: &str| {
        maps.lines().find_map(|line| {
            Path::new(line.split_whitespace().last()?)
                .ends_with(name)
                .then(|| line.to_owned())
        })
    };
    let line = folder_of("libc.so.6").expect("the tests run with glibc");
    let libc = line
        .split_whitespace()
        .last()
        .expect("a line of maps has a path");
    Path::new(libc).with_file_name("libm.so.6")
}

fn replace_all(bytes: &mut [u8], old: &[u8], new: &[u8]) {
    let places: Vec<usize> = bytes
        .windows(old.len())
        .enumerate()
        .filter(|(_, window)| *window == old)
        .map(|(at, _)| at)
        .collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + new.len()].copy_from_slice(new);
    }
}
