//! A full disk, on the board's side or on the host's: said, nothing half stored, and it goes on with room.

use std::time::Duration;

use edgedyno_agent::daemon::repeat_folder::{self, RepeatFolder};
use edgedyno_shared::ids::{BootId, RunId, Sha256, StoreId};
use edgedyno_shared::order::{OrderKey, Pass};
use edgedyno_shared::repeat::TextEvent;
use edgedyno_shared::wire::record::Record;
use edgedyno_tests::commands::{run_line, small_model};
use edgedyno_tests::lab::{Lab, assert_whole, line};
use edgedyno_tests::small_disk::SmallDisk;
use edgedyno_tests::udp_relay::let_pass;
use edgedyno_tests::{Need, Sandbox, skip};

/// An agent's disk: of uploads it always leaves 64 MiB.
const BOARD: &str = "80m";

const PLAN: [&str; 6] = ["--repeat", "5", "--warmup", "2", "--duration", "0.3s"];

fn can_mount() -> bool {
    skip::has(&[Need::Mount])
}

#[test]
fn a_full_board_waits_says_so_and_goes_on_when_there_is_room() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = SmallDisk::new(&sandbox.state(), BOARD);
    let lab = Lab::with(sandbox);
    lab.pair(&lab.ticket("run"), "x").ok();
    let model = small_model(&lab.sandbox);
    let plan = [&["--backend", "fake"][..], &PLAN].concat();
    let mut running = lab.sandbox.start_edgedyno(line(&model, &plan));
    running.wait_until("a worker", |_| lab.has_worker());
    assert!(disk.fill());
    running.wait_until("a word about it", |host| {
        host.stderr_so_far()
            .contains("a finished repeat cannot be written on the board")
    });
    // Where, and how much there is.
    let said = running.stderr_so_far();
    let spool = lab.sandbox.state().join("spool").display().to_string();
    assert!(
        said.contains(&spool) && said.contains("bytes are free"),
        "{said}"
    );
    disk.empty();
    running.wait().ok();
    assert_whole(&lab.sandbox, 5);
    assert_eq!(lab.spooled(), 0);
}

#[test]
fn a_board_that_stays_full_ends_the_run_and_keeps_what_it_measured() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = SmallDisk::new(&sandbox.state(), BOARD);
    let lab = Lab::with(sandbox);
    lab.pair(&lab.ticket("run"), "x").ok();
    let model = small_model(&lab.sandbox);
    let plan = [&["--backend", "fake"][..], &PLAN].concat();
    let mut running = lab.sandbox.start_edgedyno(line(&model, &plan));
    running.wait_until("a worker", |_| lab.has_worker());
    assert!(disk.fill());
    let ended = running.wait().expect_code(4);
    assert!(ended.stderr.contains("free room"), "{}", ended.stderr);
    assert!(ended.stderr.contains("--resume last"), "{}", ended.stderr);
    // As long as it is full there is no way on, and no failure of the case either.
    let refused = lab
        .sandbox
        .edgedyno(["run", "--resume", "last"])
        .expect_code(4);
    assert!(
        refused.stderr.contains("No space left"),
        "{}",
        refused.stderr
    );
    disk.empty();
    lab.sandbox.edgedyno(["run", "--resume", "last"]).ok();
    assert_whole(&lab.sandbox, 5);
}

#[test]
fn a_full_disk_under_the_store_loses_nothing_that_was_measured() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = SmallDisk::new(&sandbox.store(), "3m");
    let model = small_model(&sandbox);
    let mut running = sandbox.start_edgedyno(run_line(&model, "fake", &PLAN));
    running.wait_until("a worker", |_| {
        let all = sandbox.processes();
        all.iter()
            .any(|(_, line)| line.contains("worker --control"))
    });
    assert!(disk.fill());
    let ended = running.wait();
    assert_ne!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("error:"), "{}", ended.stderr);
    assert!(ended.stderr.contains("no room left"), "{}", ended.stderr);
    // What the board finished meanwhile waits there.
    let_pass(Duration::from_millis(500));
    disk.empty();
    sandbox.edgedyno(["run", "--resume", "last"]).ok();
    assert_whole(&sandbox, 5);
}

/// SQLite keeps two small files beside a store that is read.
#[test]
fn a_store_on_a_full_disk_can_be_read_or_says_what_is_missing() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = SmallDisk::new(&sandbox.store(), "3m");
    let model = small_model(&sandbox);
    sandbox.edgedyno(run_line(&model, "fake", &PLAN)).ok();
    assert!(disk.fill());
    sandbox.edgedyno(["runs", "list"]).ok();
    disk.empty();
    // A log that was not taken in cannot be read without its index.
    std::fs::write(sandbox.store().join("store.db-wal"), [7; 4096]).unwrap();
    assert!(disk.fill());
    let ended = sandbox.edgedyno(["runs", "list"]).expect_code(2);
    assert!(
        ended.stderr.contains("no room beside it"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("bytes are free"), "{}", ended.stderr);
    assert!(ended.stderr.contains("--store DIR"), "{}", ended.stderr);
}

/// Behind half of it no other could be read.
#[test]
fn of_a_record_that_found_no_room_nothing_stays_in_the_log() {
    if !can_mount() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let disk = SmallDisk::new(&base.path().join("disk"), "64k");
    let key = OrderKey {
        run: RunId("run".into()),
        case: Sha256([1; 32]),
        repeat: 0,
        attempt: 0,
        pass: Pass::Honest,
    };
    let header = repeat_folder::header(StoreId([2; 16]), BootId(1), key);
    let spill = base.path().join("spill");
    let mut folder = RepeatFolder::without_arena(disk.folder(), &spill, &header).unwrap();
    let event = |text: &str| {
        Record::Event(TextEvent {
            lane: 0,
            trial: None,
            code: "code".into(),
            text: text.into(),
        })
    };
    folder.log(&event("before")).unwrap();
    assert!(disk.fill());
    // The rest of the log's last page takes the first part of it.
    assert!(folder.log(&event(&"x".repeat(10_000))).is_err());
    disk.empty();
    folder.log(&event("after")).unwrap();
    let records = folder.records().unwrap();
    let records: Vec<Record> = records
        .map(|frame| Record::parse(&frame.payload).unwrap().1)
        .collect();
    assert_eq!(records, [event("before"), event("after")]);
}
