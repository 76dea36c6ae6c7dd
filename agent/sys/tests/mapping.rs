//! The shared mapping, as the arena uses it: one side maps, the other reads and writes the file.

use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use edgedyno_sys::kernel::mapping::{SharedWords, reserve};

const BYTES: usize = 64 * 1024;

#[test]
fn words_stored_in_the_mapping_are_read_from_the_file() {
    let file = tempfile::tempfile().unwrap();
    reserve(&file, BYTES as u64).unwrap();
    let words = SharedWords::map(file.as_fd(), BYTES).unwrap();

    words.store(1000, -7, Ordering::Release);

    let mut word = [0; 8];
    file.read_exact_at(&mut word, 8000).unwrap();
    assert_eq!(i64::from_ne_bytes(word), -7);
}

#[test]
fn words_written_to_the_file_are_loaded_from_the_mapping() {
    let file = tempfile::tempfile().unwrap();
    reserve(&file, BYTES as u64).unwrap();
    let words = SharedWords::map(file.as_fd(), BYTES).unwrap();

    file.write_all_at(&i64::MIN.to_ne_bytes(), BYTES as u64 - 8)
        .unwrap();

    assert_eq!(words.load(words.len() - 1, Ordering::Acquire), i64::MIN);
}

#[test]
fn touching_keeps_what_is_there() {
    let file = tempfile::tempfile().unwrap();
    reserve(&file, BYTES as u64).unwrap();
    let words = SharedWords::map(file.as_fd(), BYTES).unwrap();
    for (index, word) in words.iter().enumerate() {
        word.store(index as i64, Ordering::Relaxed);
    }

    words.touch();

    assert!(
        words
            .iter()
            .enumerate()
            .all(|(index, word)| word.load(Ordering::Relaxed) == index as i64)
    );
}

#[test]
fn the_mapping_outlives_the_descriptor() {
    let file = tempfile::tempfile().unwrap();
    reserve(&file, BYTES as u64).unwrap();
    let words = SharedWords::map(file.as_fd(), BYTES).unwrap();
    drop(file);

    words.store(0, 1, Ordering::Relaxed);

    assert_eq!(words.load(0, Ordering::Relaxed), 1);
}

#[test]
fn a_file_shorter_than_the_mapping_is_refused() {
    let file = tempfile::tempfile().unwrap();
    reserve(&file, 4096).unwrap();

    let error = SharedWords::map(file.as_fd(), 8192).unwrap_err();

    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn lengths_that_are_not_whole_words_are_refused() {
    let file = tempfile::tempfile().unwrap();
    reserve(&file, 4096).unwrap();

    for bytes in [0, 7, 4095] {
        let error = SharedWords::map(file.as_fd(), bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{bytes} bytes");
    }
}

#[test]
fn a_full_file_system_is_an_error_when_reserving() {
    let file = tempfile::tempfile_in("/dev/shm").unwrap();

    let error = reserve(&file, 1 << 60).unwrap_err();

    // Which of the two depends on whether the kernel counts blocks or looks at its own limits first.
    assert!(
        matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EFBIG)),
        "{error}"
    );
}
