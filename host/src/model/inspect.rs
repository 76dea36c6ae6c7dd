//! Reading an ONNX file for its facts, and naming what went wrong.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use super::error::{LooksLike, ModelError};
use super::facts::ModelFacts;
use super::scan::{Scan, ScanError};
use super::wire::WireError;

/// Bytes that tell what a file is.
const HEAD_BYTES: u64 = 512;

/// Reads the facts of the ONNX file at `path`; weights are stepped over.
pub fn inspect(path: &Path) -> Result<ModelFacts, ModelError> {
    let mut file = open(path)?;
    let read = |source| ModelError::Read {
        path: path.to_owned(),
        source,
    };
    let head = read_head(&mut file).map_err(read)?;
    inspect_source(path, &head, file)
}

/// Opens a plain file; a pipe would block and a device could go on for ever.
pub(super) fn open(path: &Path) -> Result<File, ModelError> {
    let fail = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => ModelError::Missing {
            path: path.to_owned(),
        },
        _ => ModelError::Read {
            path: path.to_owned(),
            source,
        },
    };
    if !std::fs::metadata(path).map_err(fail)?.is_file() {
        return Err(ModelError::NotAFile {
            path: path.to_owned(),
        });
    }
    File::open(path).map_err(fail)
}

fn read_head(file: &mut (impl Read + Seek)) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    file.take(HEAD_BYTES).read_to_end(&mut head)?;
    Ok(head)
}

fn inspect_source<R: Read + Seek>(
    path: &Path,
    head: &[u8],
    source: R,
) -> Result<ModelFacts, ModelError> {
    let path = path.to_owned();
    let mut scan = match Scan::new(source) {
        Ok(scan) => scan,
        Err(source) => return Err(ModelError::Read { path, source }),
    };
    let error = match scan.run() {
        Ok(facts) => return Ok(facts),
        Err(error) => error,
    };
    // Only a file that failed is judged by its head: bytes 4 to 8 of a good model may be anything.
    let looks = LooksLike::from_head(head);
    let is_other = !scan.recognised || looks != LooksLike::Unknown;
    Err(match error {
        ScanError::Wire(WireError::Io(source)) => ModelError::Read { path, source },
        _ if is_other => ModelError::NotOnnx { path, looks },
        ScanError::Wire(WireError::Truncated { at }) => ModelError::Truncated { path, at },
        ScanError::Wire(WireError::Malformed { at, why }) => {
            ModelError::Malformed { path, at, why }
        }
        ScanError::External { location, why } => ModelError::ExternalName {
            path,
            location,
            why,
        },
    })
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;
    use prost::Message;

    use super::super::element::ElementType;
    use super::super::facts::{Dim, ExternalFile, Opset, ValueFacts, ValueKind};
    use super::super::onnx::{GraphProto, ModelProto, StringStringEntryProto, TensorProto};
    use super::*;

    const BRANCH: &[u8] = include_bytes!("fixtures/branch.onnx");
    /// The last 17 bytes are the second operator set; a model cut before them is still whole.
    const FIRST_OPSET_END: usize = BRANCH.len() - 17;

    fn inspect_bytes(bytes: &[u8]) -> Result<ModelFacts, ModelError> {
        let head = &bytes[..bytes.len().min(HEAD_BYTES as usize)];
        inspect_source(Path::new("m.onnx"), head, Cursor::new(bytes))
    }

    fn tensor(name: &str, dtype: ElementType, dims: Vec<Dim>) -> ValueFacts {
        ValueFacts {
            name: name.into(),
            kind: ValueKind::Tensor {
                dtype,
                dims: Some(dims),
            },
        }
    }

    #[test]
    fn the_facts_are_those_the_fixture_was_made_with() {
        let facts = inspect_bytes(BRANCH).unwrap();
        assert_eq!(facts.ir_version, 8);
        let opset = |domain: &str, version| Opset {
            domain: domain.into(),
            version,
        };
        assert_eq!(facts.opsets, [opset("", 17), opset("com.example", 1)]);
        assert_eq!(facts.producer.as_ref().unwrap().name, "fixtures");
        // `bias` is listed as an input too, but has a value.
        let batch = Dim::Symbolic("batch".into());
        assert_eq!(
            facts.inputs,
            [
                tensor(
                    "x",
                    ElementType::F16,
                    vec![batch.clone(), Dim::Unknown, Dim::Fixed(2)]
                ),
                tensor("flag", ElementType::BOOL, vec![]),
            ]
        );
        assert_eq!(
            facts.outputs[0],
            tensor("y", ElementType::F32, vec![batch, Dim::Fixed(2)])
        );
        assert_eq!(facts.outputs[1].kind, ValueKind::Sequence);
    }

    #[test]
    fn nodes_and_parameters_of_subgraphs_count() {
        let facts = inspect_bytes(BRANCH).unwrap();
        let ops: Vec<(&str, u64)> = facts.ops.iter().map(|(op, n)| (op.as_str(), *n)).collect();
        assert_eq!(
            ops,
            [
                ("Add", 1),
                ("Constant", 2),
                ("If", 1),
                ("Mul", 2),
                ("com.example:FusedThing", 1)
            ]
        );
        assert_eq!(facts.nodes(), 7);
        // bias 2, big 15, small 4, and two constants of 2; four bytes each.
        assert_eq!((facts.parameters, facts.parameter_bytes), (25, 100));
    }

    #[test]
    fn weight_files_are_listed_with_the_bytes_they_must_have() {
        let file = |name: &str, needs_bytes| ExternalFile {
            name: name.into(),
            needs_bytes,
        };
        // `small.bin` is named without offset and length.
        let expected = [file("small.bin", 0), file("weights/big.bin", 64 + 60)];
        assert_eq!(inspect_bytes(BRANCH).unwrap().external_files, expected);
    }

    #[test]
    fn a_weight_file_outside_the_folder_is_refused() {
        for location in ["/etc/shadow", "../../secret", ""] {
            let error = inspect_bytes(&with_external(location)).unwrap_err();
            assert!(
                matches!(error, ModelError::ExternalName { .. }),
                "{location}: {error}"
            );
        }
        assert!(inspect_bytes(&with_external("sub/w.bin")).is_ok());
    }

    fn with_external(location: &str) -> Vec<u8> {
        let entry = StringStringEntryProto {
            key: "location".into(),
            value: location.into(),
        };
        let tensor = TensorProto {
            data_location: 1,
            external_data: vec![entry],
            ..TensorProto::default()
        };
        let mut model = ModelProto::decode(BRANCH).unwrap();
        model.graph = Some(GraphProto {
            initializer: vec![tensor],
            ..GraphProto::default()
        });
        model.encode_to_vec()
    }

    #[test]
    fn a_cut_model_is_truncated_and_other_files_are_not_models() {
        let cut = inspect_bytes(&BRANCH[..400]).unwrap_err();
        assert!(
            matches!(cut, ModelError::Truncated { at: 400, .. }),
            "{cut}"
        );
        for (bytes, looks) in [
            (&b""[..], LooksLike::Empty),
            (b"\x1c\0\0\0TFL3\0\0\0\0", LooksLike::Tflite),
            (b"PK\x03\x04\x14\0\0\0", LooksLike::Zip),
            (b"hello, this is a note\n", LooksLike::Text),
            (b"\xff\xfe\xfd\xfc", LooksLike::Unknown),
        ] {
            match inspect_bytes(bytes).unwrap_err() {
                ModelError::NotOnnx { looks: found, .. } => assert_eq!(found, looks),
                error => panic!("{error}"),
            }
        }
    }

    #[test]
    fn a_missing_file_and_a_folder_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let missing = inspect(&folder.path().join("none.onnx")).unwrap_err();
        assert!(matches!(missing, ModelError::Missing { .. }));
        assert!(matches!(
            inspect(folder.path()).unwrap_err(),
            ModelError::NotAFile { .. }
        ));
    }

    #[test]
    fn endless_nesting_is_refused() {
        // A graph whose node has an attribute that holds a graph, five thousand times.
        let mut graph = Vec::new();
        for _ in 0..5000 {
            for tag in [0x32, 0x2a, 0x0a] {
                let mut outer = vec![tag];
                prost::encoding::encode_varint(graph.len() as u64, &mut outer);
                outer.append(&mut graph);
                graph = outer;
            }
        }
        let mut model = vec![0x08, 8, 0x3a];
        prost::encoding::encode_varint(graph.len() as u64, &mut model);
        model.append(&mut graph);
        assert!(matches!(
            inspect_bytes(&model).unwrap_err(),
            ModelError::Malformed { .. }
        ));
    }

    #[test]
    fn claimed_sizes_are_never_allocated() {
        // A tensor of 2^40 x 2^20 elements, and one whose product does not fit.
        for (dims, fits) in [
            (vec![1 << 40, 1 << 20], true),
            (vec![1 << 40, 1 << 40], false),
        ] {
            let tensor = TensorProto {
                dims,
                data_type: 1,
                ..TensorProto::default()
            };
            let mut model = ModelProto::decode(BRANCH).unwrap();
            model.graph = Some(GraphProto {
                initializer: vec![tensor],
                ..GraphProto::default()
            });
            assert_eq!(inspect_bytes(&model.encode_to_vec()).is_ok(), fits);
        }
    }

    proptest! {
        #[test]
        fn a_prefix_without_all_operator_sets_never_passes_for_a_model(cut in 0..FIRST_OPSET_END) {
            prop_assert!(inspect_bytes(&BRANCH[..cut]).is_err());
        }

        #[test]
        fn damaged_bytes_give_an_answer(
            edits in prop::collection::vec((0..BRANCH.len(), any::<u8>()), 1..20),
            cut in 0..=BRANCH.len(),
        ) {
            let mut bytes = BRANCH.to_vec();
            for (at, byte) in edits {
                bytes[at] = byte;
            }
            bytes.truncate(cut);
            let _ = inspect_bytes(&bytes);
        }

        #[test]
        fn any_bytes_give_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = inspect_bytes(&bytes);
        }
    }
}
