//! Models that hosts upload: what they may name, and what becomes of those that name more.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "each file of tests uses a part of it")]
mod client;

use std::path::Path;

use client::{Daemon, Host, order};
use edgedyno_shared::case::RuntimeRef;
use edgedyno_shared::content::{ContentOffer, OfferedFile, content_hash};
use edgedyno_shared::device::RuntimeVerdict;
use edgedyno_shared::ids::Sha256;
use edgedyno_shared::order::RepeatOrder;
use edgedyno_shared::repeat::Outcome;
use edgedyno_shared::wire::failure::FailureCode;
use edgedyno_shared::wire::request::{Reply, Request, Upload};
use sha2::Digest;

/// The name of a weight file that every runtime here takes.
const BESIDE: &str = "weights.data";

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap();
    let length = [(length & 0x7f) as u8 | 0x80, (length >> 7) as u8];
    [&[number << 3 | 2][..], &length, bytes].concat()
}

fn varint(number: u8, value: u8) -> [u8; 2] {
    [number << 3, value]
}

/// `y = x + w` of two floats, with `w` in a file of that name.
fn model(location: &str) -> Vec<u8> {
    let text = |number, text: &str| field(number, text.as_bytes());
    let shape = field(2, &field(1, &varint(1, 2)));
    let kind = field(2, &field(1, &[&varint(1, 1)[..], &shape].concat()));
    let value = |name| [text(1, name), kind.clone()].concat();
    let pair = |key, value| field(13, &[text(1, key), text(2, value)].concat());
    let tensor = [
        varint(1, 2).to_vec(),
        varint(2, 1).to_vec(),
        text(8, "w"),
        pair("location", location),
        pair("offset", "0"),
        pair("length", "8"),
        varint(14, 1).to_vec(),
    ];
    let node = [text(1, "x"), text(1, "w"), text(2, "y"), text(4, "Add")];
    let graph = [
        field(1, &node.concat()),
        text(2, "g"),
        field(5, &tensor.concat()),
        field(11, &value("x")),
        field(12, &value("y")),
    ];
    let opset = [text(1, ""), varint(2, 13).to_vec()];
    [
        varint(1, 8).to_vec(),
        field(7, &graph.concat()),
        field(8, &opset.concat()),
    ]
    .concat()
}

/// Sends a model and the file beside it, and gives the hash it goes by.
fn upload(host: &mut Host, model: &[u8]) -> Sha256 {
    let weights = [1.0_f32, 2.0].map(f32::to_le_bytes).concat();
    let file = |name: &str, bytes: &[u8]| OfferedFile {
        name: name.into(),
        sha256: Sha256(sha2::Sha256::digest(bytes).into()),
        bytes: bytes.len() as u64,
    };
    let files = vec![file("m.onnx", model), file(BESIDE, &weights)];
    let sha256 = content_hash(&files);
    let pieces = files.clone();
    let offered = host.ask(Request::Offer(ContentOffer { sha256, files }));
    assert!(matches!(offered, Ok(Reply::Offered(_))), "{offered:?}");
    for (file, bytes) in pieces.into_iter().zip([model, &weights]) {
        let upload = Upload {
            sha256: file.sha256,
            offset: 0,
            bytes: bytes.to_vec(),
        };
        let sent = host.ask(Request::Upload(upload));
        assert_eq!(sent, Ok(Reply::Uploaded(file.bytes)));
    }
    sha256
}

/// The library of ONNX Runtime that this board has, if it has one.
fn onnxruntime(host: &mut Host) -> Option<RuntimeRef> {
    let Reply::Info(info) = host.ask(Request::Info).unwrap() else {
        panic!("another reply");
    };
    let backend = info
        .backends
        .into_iter()
        .find(|b| b.name == "onnxruntime")?;
    backend
        .runtimes
        .into_iter()
        .find_map(|found| match found.verdict {
            RuntimeVerdict::Usable(facts) => Some(RuntimeRef {
                version: facts.version,
                sha256: facts.sha256?,
            }),
            RuntimeVerdict::Refused { .. } => None,
        })
}

fn ordered(repeat: u32, model: Sha256, backend: &str, runtime: Option<RuntimeRef>) -> RepeatOrder {
    let mut order = order(repeat, &[]);
    order.case.backend = backend.into();
    order.case.runtime = runtime;
    order.case.model.sha256 = model;
    order
}

/// A file of the board that a model could read if nobody looked: as much as the weights have.
fn secret(folder: &Path) -> String {
    let path = folder.join("secret.data");
    std::fs::write(&path, [0; 8]).unwrap();
    path.display().to_string()
}

#[test]
fn a_model_reads_files_of_its_own_only_whatever_runs_it() {
    let daemon = Daemon::start(&["serve"]);
    let mut host = daemon.connect();
    let runtime = onnxruntime(&mut host);
    let mut backends = vec![("rten", None)];
    match runtime {
        Some(runtime) => backends.push(("onnxruntime", Some(runtime))),
        None => eprintln!("ONNX Runtime is not on this machine: only rten is asked"),
    }
    let absolute = secret(daemon.folder.path());
    let mut repeat = 0;
    for (backend, runtime) in &backends {
        for (location, is_own) in [
            (BESIDE, true),
            ("../../../secret.data", false),
            (absolute.as_str(), false),
        ] {
            let sha256 = upload(&mut host, &model(location));
            host.submit(vec![ordered(repeat, sha256, backend, runtime.clone())]);
            repeat += 1;
            let segment = host.segment();
            host.acknowledge(&segment);
            if is_own {
                assert_eq!(segment.end().outcome, Outcome::Complete, "{backend}");
                continue;
            }
            let (stage, failure) = segment.failure();
            assert_eq!(stage, "load", "{backend}, {location}: {failure:?}");
            assert_eq!(failure.code, FailureCode::ModelUnreadable);
            assert!(failure.detail.contains(location), "{failure:?}");
        }
    }
}

#[test]
fn an_uploaded_file_is_no_library() {
    let daemon = Daemon::start(&["serve"]);
    let mut host = daemon.connect();
    let sha256 = upload(&mut host, &model(BESIDE));
    let runtime = RuntimeRef {
        version: "1.32.0".into(),
        sha256,
    };
    host.submit(vec![ordered(0, sha256, "onnxruntime", Some(runtime))]);
    let segment = host.segment();
    let (_, failure) = segment.failure();
    assert_eq!(failure.code, FailureCode::NotFound);
    assert!(failure.detail.contains("no library"), "{failure:?}");
}
