//! What the memory kernels are made of, as it stands in the program.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::Command;

use edgedyno_sys::stress::{Pattern, Stream, Stride};

/// Calls everything, so that nothing is left out of the program.
fn moved_by_all() -> u64 {
    let built = Pattern::ALL
        .into_iter()
        .filter(|pattern| pattern.is_built());
    let moved = built.map(|pattern| {
        let mut stream = Stream::new(black_box(pattern), 1).unwrap();
        stream.step(256)
    });
    moved.sum()
}

/// Instructions of each function of this program that is a kernel, by module and name.
fn kernels() -> Option<BTreeMap<String, Vec<String>>> {
    let program = std::env::current_exe().unwrap();
    let mut objdump = Command::new("objdump");
    objdump
        .args(["-d", "-C", "--no-show-raw-insn"])
        .arg(program);
    let output = objdump.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut name = None;
    for line in text.lines() {
        if let Some(head) = line.strip_suffix(">:") {
            name = head.split_once("stress::arch::").map(|(_, name)| name);
        } else if let (Some(name), Some((_, instruction))) = (name, line.split_once('\t')) {
            let body = found.entry(name.to_owned()).or_default();
            body.push(instruction.to_owned());
        }
    }
    Some(found)
}

/// Why nothing can be said, where that may be.
fn without_objdump() -> &'static str {
    let strict = std::env::var("EDGEDYNO_TEST_STRICT");
    let why = "objdump is needed to see what the kernels are made of";
    assert_ne!(strict.as_deref(), Ok("1"), "{why}");
    why
}

/// How many instructions of all kernels of that name hold every one of these words.
fn count(kernels: &BTreeMap<String, Vec<String>>, name: &str, words: &[&str]) -> usize {
    let of_name = kernels.iter();
    let of_name = of_name.filter(|(kernel, _)| kernel.rsplit("::").next() == Some(name));
    let bodies: Vec<&Vec<String>> = of_name.map(|(_, body)| body).collect();
    assert!(!bodies.is_empty(), "no {name} in {:?}", kernels.keys());
    let instructions = bodies.into_iter().flatten();
    let has_all = |text: &&String| words.iter().all(|word| text.contains(word));
    instructions.filter(has_all).count()
}

/// Each loop of `read` takes eight vectors from memory and adds them up; one of `triad` takes four from each of
/// two arrays, multiplies, adds, and stores four. On x86-64 the narrow ones may be part of what calls them.
#[test]
fn what_reads_loads_wide_vectors_and_what_adds_multiplies_them() {
    assert!(moved_by_all() > 0);
    let Some(kernels) = kernels() else {
        eprintln!("skipped: {}", without_objdump());
        return;
    };
    let count = |name: &str, words: &[&str]| count(&kernels, name, words);
    match std::env::consts::ARCH {
        "aarch64" => {
            assert!(count("read", &["ldp", "q"]) >= 4);
            assert!(count("read", &["add", ".2d"]) >= 8);
            assert!(count("triad", &["ldp", "q"]) >= 4);
            assert!(count("triad", &["fmla", ".2d"]) >= 4);
            assert!(count("triad", &["stp", "q"]) >= 2);
        }
        _ => {
            // An address stands in parentheses.
            assert!(count("read", &["vpaddq", "(", "ymm"]) >= 8);
            assert!(count("triad", &["vmulpd", "ymm"]) >= 4);
            assert!(count("triad", &["vaddpd", "ymm", "("]) >= 4);
            assert!(count("triad", &["vmovapd", "ymm", "("]) >= 4);
        }
    }
    // Side by side, each a page and a line after the one before.
    assert_eq!(Stride::new(1).unwrap().step(black_box(8)), 512);
    for times in 1..8 {
        let place = match std::env::consts::ARCH {
            "aarch64" => format!("#{}]", times * 4160),
            _ => format!("{:#x}(", times * 4160),
        };
        assert_eq!(count("read_apart", &[&place]), 1, "{place}");
    }
    for name in ["read", "triad"] {
        for passing in ["movnt", "stnp", "ldnp"] {
            assert_eq!(count(name, &[passing]), 0, "{name}: {passing}");
        }
    }
    for call in ["memcpy", "memset", "memmove"] {
        assert_eq!(count("triad", &[call]), 0, "triad calls {call}");
    }
}

#[test]
fn stores_that_shall_pass_the_caches_by_do_and_others_do_not() {
    assert!(moved_by_all() > 0);
    let Some(kernels) = kernels() else {
        eprintln!("skipped: {}", without_objdump());
        return;
    };
    let (passing, plain) = match std::env::consts::ARCH {
        "aarch64" => ("stnp", "stp"),
        _ => ("movnt", "movdqa"),
    };
    let count = |name: &str, word: &str| count(&kernels, name, &[word]);
    for name in ["write", "write_nt", "copy", "copy_nt"] {
        let (passing, plain) = (count(name, passing), count(name, plain));
        match name.ends_with("_nt") {
            true => assert!(passing >= 4, "{name}: {passing}"),
            false => assert!(passing == 0 && plain >= 4, "{name}: {passing} {plain}"),
        }
        for call in ["memcpy", "memset", "memmove"] {
            assert_eq!(count(name, call), 0, "{name} calls {call}");
        }
    }
}
