//! Where a model's weights are read from, when not from its own file.
//!
//! A model comes from a host, and a tensor of it can name any path for its data; not every release of every
//! runtime refuses one that leaves the model's folder. So each tensor that a runtime could read is looked
//! at before the file is given to one: initializers, values of attributes, those of nested graphs, of
//! functions, and of training.

use std::io::{Read, Seek};

use edgedyno_shared::content::check_location;

use super::{GraphError, Walk, Wire};

/// Messages within messages, as many as protobuf's own readers take.
const DEEPEST: u32 = 100;

/// A message that can lead to a tensor.
#[derive(Clone, Copy)]
enum Holder {
    Model,
    Training,
    Function,
    Graph,
    Node,
    Attribute,
    Sparse,
    Tensor,
    /// One of a tensor's pairs of key and value about its data.
    Entry,
}

impl Holder {
    /// What a field of it is, where that can lead to a tensor (numbers of `onnx.proto`, ONNX 1.23).
    fn field(self, number: u64) -> Option<Self> {
        Some(match (self, number) {
            (Self::Model, 7) | (Self::Training, 1 | 2) | (Self::Attribute, 6 | 11) => Self::Graph,
            (Self::Model, 20) => Self::Training,
            (Self::Model, 25) => Self::Function,
            (Self::Graph, 1) | (Self::Function, 7) => Self::Node,
            (Self::Node, 5) | (Self::Function, 11) => Self::Attribute,
            (Self::Graph, 15) | (Self::Attribute, 22 | 23) => Self::Sparse,
            (Self::Graph, 5) | (Self::Attribute, 5 | 10) | (Self::Sparse, 1 | 2) => Self::Tensor,
            (Self::Tensor, 13) => Self::Entry,
            _ => return None,
        })
    }
}

/// Refuses a model that names a file outside of its folder.
pub(super) fn check<S: Read + Seek>(walk: &mut Walk<S>) -> Result<(), GraphError> {
    let end = walk.length;
    look(walk, Holder::Model, end, 0)
}

fn look<S: Read + Seek>(
    walk: &mut Walk<S>,
    holder: Holder,
    end: u64,
    depth: u32,
) -> Result<(), GraphError> {
    if depth > DEEPEST {
        return Err(GraphError::NotOnnx("its messages are nested too deeply"));
    }
    if matches!(holder, Holder::Entry) {
        return entry(walk, end);
    }
    while let Some(field) = walk.field(end)? {
        match (holder.field(field.0), &field.1) {
            (Some(held), Wire::Bytes(to)) => look(walk, held, *to, depth + 1)?,
            _ => walk.skip(field)?,
        }
    }
    Ok(())
}

/// `StringStringEntryProto`: key 1, value 2. Of a field that is there twice readers take the last; here each
/// counts.
fn entry<S: Read + Seek>(walk: &mut Walk<S>, end: u64) -> Result<(), GraphError> {
    let (mut is_location, mut values) = (false, Vec::new());
    while let Some(field) = walk.field(end)? {
        match field {
            (1, Wire::Bytes(to)) => is_location |= walk.text(to)? == "location",
            (2, Wire::Bytes(to)) => values.push(walk.text(to)?),
            other => walk.skip(other)?,
        }
    }
    let mut outside = values.into_iter().filter(|value| is_outside(value));
    match outside.next().filter(|_| is_location) {
        Some(location) => Err(GraphError::Outside(location)),
        None => Ok(()),
    }
}

/// ONNX Runtime marks data that lies in its own memory by a location that begins with a star; no file is
/// called that, and the address would be the model's to choose.
fn is_outside(location: &str) -> bool {
    location.starts_with('*') || check_location(location).is_err()
}

#[cfg(test)]
mod tests {
    use super::super::read_from;
    use super::*;
    use crate::backend::onnx_writer::{Graph, bytes, number, value};

    /// `TensorProto` of one f32 whose data lies elsewhere.
    fn external(location: &str) -> Vec<u8> {
        let pair = |key: &str, value: &str| bytes(13, [bytes(1, key), bytes(2, value)].concat());
        let data = [pair("offset", "0"), pair("location", location)].concat();
        [
            number(1, 1),
            number(2, 1),
            bytes(8, "w"),
            data,
            number(14, 1),
        ]
        .concat()
    }

    /// Every place of a model that a tensor can stand in.
    fn places(tensor: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
        let node = |attribute: Vec<u8>| [bytes(4, "Op"), bytes(5, attribute)].concat();
        let with_nodes = |nodes: Vec<Vec<u8>>| {
            Graph {
                nodes,
                outputs: vec![value("y", 1, Some(&[]))],
                ..Graph::default()
            }
            .file()
        };
        let plain = with_nodes(Vec::new());
        let graph = bytes(5, tensor);
        let sparse = |field| bytes(field, tensor);
        let initializer = Graph {
            initializers: vec![tensor.to_vec()],
            ..Graph::default()
        };
        vec![
            ("initializer", initializer.file()),
            ("value", with_nodes(vec![node(bytes(5, tensor))])),
            ("values", with_nodes(vec![node(bytes(10, tensor))])),
            ("branch", with_nodes(vec![node(bytes(6, &graph))])),
            ("branches", with_nodes(vec![node(bytes(11, &graph))])),
            ("sparse value", with_nodes(vec![node(bytes(22, sparse(1)))])),
            (
                "sparse values",
                with_nodes(vec![node(bytes(23, sparse(2)))]),
            ),
            (
                "sparse initializer",
                [&plain[..], &bytes(7, bytes(15, sparse(2)))].concat(),
            ),
            ("second graph", [&plain[..], &bytes(7, &graph)].concat()),
            (
                "training",
                [&plain[..], &bytes(20, bytes(2, &graph))].concat(),
            ),
            (
                "function",
                [&plain[..], &bytes(25, bytes(7, node(bytes(5, tensor))))].concat(),
            ),
            (
                "default of a function",
                [&plain[..], &bytes(25, bytes(11, bytes(5, tensor)))].concat(),
            ),
        ]
    }

    fn read(file: Vec<u8>) -> Result<(), GraphError> {
        read_from(std::io::Cursor::new(file)).map(drop)
    }

    #[test]
    fn a_model_that_leaves_its_folder_is_refused_wherever_it_says_so() {
        for location in [
            "../weights.data",
            "a/../../weights.data",
            "/etc/passwd",
            "..",
            "",
            "a\\..\\b",
            "*/_ORT_MEM_ADDR_/*",
        ] {
            for (place, file) in places(&external(location)) {
                let refused = read(file).unwrap_err();
                let is_outside =
                    matches!(&refused, GraphError::Outside(named) if named == location);
                assert!(is_outside, "{place}, {location:?}: {refused}");
            }
        }
    }

    #[test]
    fn files_beside_a_model_and_below_are_its_own() {
        for location in ["weights.data", "./weights.data", "a/b.data", "..data"] {
            for (place, file) in places(&external(location)) {
                read(file).unwrap_or_else(|why| panic!("{place}, {location}: {why}"));
            }
        }
    }

    #[test]
    fn a_pair_that_says_it_twice_hides_nothing() {
        let away = bytes(2, "/etc/passwd");
        for pair in [
            [bytes(1, "x"), bytes(1, "location"), away.clone()].concat(),
            [bytes(1, "location"), bytes(1, "x"), away.clone()].concat(),
            [bytes(1, "location"), bytes(2, "w.data"), away.clone()].concat(),
            [away.clone(), bytes(2, "w.data"), bytes(1, "location")].concat(),
        ] {
            let (_, file) = places(&bytes(13, pair)).swap_remove(0);
            assert!(matches!(read(file), Err(GraphError::Outside(_))));
        }
    }

    /// Readers that keep 32 bits of a field's number would see another one.
    #[test]
    fn a_number_of_a_field_that_is_cut_short_elsewhere_is_refused() {
        let (_, mut file) = places(&external("w.data")).swap_remove(0);
        // Number 7 | 1 << 29 as a tag of 35 bits, and no content.
        file.extend([0xba, 0x80, 0x80, 0x80, 0x10, 0]);
        assert!(matches!(read(file), Err(GraphError::NotOnnx(_))));
    }

    #[test]
    fn a_nest_without_a_bottom_is_refused() {
        let mut graph = bytes(5, external("w.data"));
        for _ in 0..200 {
            graph = bytes(1, bytes(5, bytes(6, graph)));
        }
        assert!(matches!(read(bytes(7, graph)), Err(GraphError::NotOnnx(_))));
    }
}
