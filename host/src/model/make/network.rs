//! A kind of network, and making one into a file.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::draw::Drawing;
use super::error::MakeError;
use super::options::{Options, Plan, Size, Weights};
use super::{NETWORKS, save};

/// One kind of network.
#[derive(Debug)]
pub struct Network {
    pub name: &'static str,
    /// One line for a list.
    pub about: &'static str,
    /// The sizes it has, with their defaults.
    pub defaults: Size,
    pub(super) draw: fn(&Plan) -> Drawing,
}

/// A network that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Made {
    pub path: PathBuf,
    /// The file with the weights, when they are not inside.
    pub data: Option<PathBuf>,
    /// Weights and biases.
    pub parameters: u64,
    /// Multiply-accumulates of one run at the batch and image size asked for: convolutions and
    /// matrix products; adding, clipping and averaging are left out.
    pub macs: u64,
    /// Of all weights and biases.
    pub parameter_bytes: u64,
    /// Of all files.
    pub bytes: u64,
}

/// The network of that name.
pub fn find(name: &str) -> Result<&'static Network, MakeError> {
    NETWORKS
        .iter()
        .find(|network| network.name == name)
        .ok_or_else(|| {
            let known: Vec<&str> = NETWORKS.iter().map(|network| network.name).collect();
            MakeError::UnknownNetwork {
                name: name.to_owned(),
                known: known.join(", "),
            }
        })
}

impl Network {
    /// Writes the network to `path`, replacing what is there only when it is complete.
    ///
    /// The same network, options and file name give the same bytes on every machine.
    pub fn make(&self, options: &Options, path: &Path) -> Result<Made, MakeError> {
        let drawing = (self.draw)(&Plan::resolve(self, options)?);
        let parameter_bytes = drawing.parameter_bytes();
        check_size(parameter_bytes, options.weights)?;
        let macs = drawing.macs;
        let macs = u64::try_from(macs).map_err(|_| MakeError::TooManyMacs { macs })?;
        let written = save::save(&drawing, self.name, options, path)?;
        Ok(Made {
            path: path.to_owned(),
            data: written.data,
            parameters: drawing.parameters(),
            macs,
            parameter_bytes,
            bytes: written.bytes,
        })
    }

    /// Names of the sizes it has, for an error.
    pub(super) fn sizes(&self) -> String {
        let named = self.defaults.named();
        let known: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
        known.join(", ")
    }
}

/// Room for the nodes beside the weights.
const INSIDE_LIMIT: u64 = (2 << 30) - (16 << 20);
const EXTERNAL_LIMIT: u64 = 32 << 30;

fn check_size(bytes: u64, weights: Weights) -> Result<(), MakeError> {
    match weights {
        _ if bytes > EXTERNAL_LIMIT => Err(MakeError::TooLarge {
            bytes,
            limit: EXTERNAL_LIMIT,
        }),
        Weights::Inside if bytes > INSIDE_LIMIT => Err(MakeError::TooLargeInside {
            bytes,
            limit: INSIDE_LIMIT,
        }),
        Weights::Inside | Weights::External => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use prost::Message;

    use super::*;
    use crate::model::digest::Digest;
    use crate::model::facts::{Dim, ModelFacts, ValueKind};
    use crate::model::identify::identify;
    use crate::model::inspect::inspect;
    use crate::model::onnx::ModelProto;

    /// Small, so that a test takes milliseconds.
    fn small(name: &str) -> Options {
        let size = match name {
            "matmul" => Size {
                depth: Some(3),
                width: Some(20),
                ..Size::default()
            },
            _ => Size {
                channels: Some(4),
                depth: Some(2),
                image: Some(9),
                width: None,
            },
        };
        Options {
            size,
            ..Options::default()
        }
    }

    fn make(name: &str, options: &Options) -> (tempfile::TempDir, Made, ModelFacts) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.onnx");
        let made = find(name).unwrap().make(options, &path).unwrap();
        let facts = inspect(&path).unwrap();
        (folder, made, facts)
    }

    #[test]
    fn figures_follow_from_the_published_formulas() {
        // Convolution: out area x out channels x in channels / groups x kernel area, and a bias each.
        // C 4, depth 2, image 9x9; halved by the first layer of `depthwise` and `residual` to 5x5.
        let classifier = (4 * 100 + 100, 4 * 100);
        let conv = (3 * 4 * 9 + 4 + 4 * 4 * 9 + 4, 81 * (3 * 4 * 9 + 4 * 4 * 9));
        // Two scalars are the bounds of every Clip.
        let depthwise = (
            3 * 4 * 9 + 4 + 2 * (4 * 9 + 4 + 4 * 4 + 4) + 2,
            25 * (3 * 4 * 9 + 2 * (4 * 9 + 4 * 4)),
        );
        let residual = (
            3 * 4 * 9 + 4 + 2 * 2 * (4 * 4 * 9 + 4),
            25 * (3 * 4 * 9 + 2 * 2 * 4 * 4 * 9),
        );
        for (name, (parameters, macs)) in [
            ("conv", conv),
            ("depthwise", depthwise),
            ("residual", residual),
        ] {
            let (_folder, made, facts) = make(
                name,
                &Options {
                    batch: 3,
                    ..small(name)
                },
            );
            assert_eq!(made.parameters, parameters + classifier.0, "{name}");
            assert_eq!(made.macs, 3 * (macs + classifier.1), "{name}");
            assert_eq!(
                (facts.parameters, facts.parameter_bytes),
                (made.parameters, made.parameter_bytes)
            );
            assert_eq!(made.parameter_bytes, 4 * made.parameters);
        }
        let (_folder, made, _) = make(
            "matmul",
            &Options {
                batch: 3,
                ..small("matmul")
            },
        );
        assert_eq!((made.parameters, made.macs), (3 * (400 + 20), 3 * 3 * 400));
    }

    #[test]
    fn the_nodes_are_those_of_the_description() {
        let ops = |name| {
            let (_folder, _, facts) = make(name, &small(name));
            facts
                .ops
                .into_iter()
                .map(|(op, n)| format!("{op} {n}"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        assert_eq!(
            ops("conv"),
            "Conv 2, Flatten 1, Gemm 1, GlobalAveragePool 1, Relu 2"
        );
        assert_eq!(
            ops("depthwise"),
            "Clip 5, Conv 5, Flatten 1, Gemm 1, GlobalAveragePool 1"
        );
        assert_eq!(
            ops("residual"),
            "Add 2, Conv 5, Flatten 1, Gemm 1, GlobalAveragePool 1, Relu 5"
        );
        assert_eq!(ops("matmul"), "Add 3, MatMul 3, Relu 2");
    }

    #[test]
    fn dims_are_fixed_unless_they_are_asked_to_be_named() {
        let shapes = |name: &str, dynamic| {
            let (_folder, _, facts) = make(
                name,
                &Options {
                    batch: 2,
                    dynamic,
                    ..small(name)
                },
            );
            [&facts.inputs, &facts.outputs].map(|values| match &values[0].kind {
                ValueKind::Tensor {
                    dims: Some(dims), ..
                } => dims
                    .iter()
                    .map(Dim::to_string)
                    .collect::<Vec<_>>()
                    .join("x"),
                kind => panic!("{kind:?}"),
            })
        };
        assert_eq!(shapes("conv", false), ["2x3x9x9", "2x100"]);
        assert_eq!(shapes("conv", true), ["Nx3xHxW", "Nx100"]);
        assert_eq!(shapes("matmul", false), ["2x20", "2x20"]);
        assert_eq!(shapes("matmul", true), ["Nx20", "Nx20"]);
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let hash = |name: &str, seed| {
            let (folder, ..) = make(
                name,
                &Options {
                    seed,
                    ..small(name)
                },
            );
            Digest::of(&fs::read(folder.path().join("m.onnx")).unwrap()).to_string()
        };
        for (name, golden) in [
            (
                "conv",
                "963f684920bea726d7a620b9b157a8150c07bde57b5378bfee6d2154f9e76a42",
            ),
            (
                "depthwise",
                "b099d5cd14df3e8f95fd1fe92ec05696cdba08bc528e3c51159a9f9097a4644b",
            ),
            (
                "residual",
                "e9b8aea7f678c293fe2d1aa842df1731a684867486e9928fd8bd267ac911cace",
            ),
            (
                "matmul",
                "6a79d48569c3e51782d9419a44cd527f9fe7857c16e5c20896423755a5ee8e9d",
            ),
        ] {
            assert_eq!(hash(name, 1), golden, "{name}");
            assert_ne!(hash(name, 2), golden, "{name}");
        }
    }

    #[test]
    fn weights_in_a_file_beside_the_model_are_the_same_weights() {
        let options = small("matmul");
        let (_folder, inside, _) = make("matmul", &options);
        let (_folder2, outside, facts) = make(
            "matmul",
            &Options {
                weights: Weights::External,
                ..options
            },
        );
        let data = fs::read(outside.data.as_ref().unwrap()).unwrap();
        // Three matrices of 1600 bytes, each at a page; biases of 80 bytes stay inside.
        assert_eq!(data.len(), 2 * 4096 + 1600);
        assert_eq!(facts.external_files[0].name, "m.onnx.data");
        assert_eq!(facts.external_files[0].needs_bytes, 2 * 4096 + 1600);
        let model = ModelProto::decode(fs::read(&inside.path).unwrap().as_slice()).unwrap();
        let matrices = model.graph.unwrap().initializer.into_iter().step_by(2);
        for (page, matrix) in data.chunks(4096).zip(matrices) {
            assert!(matrix.raw_data.unwrap() == page[..1600], "{}", matrix.name);
        }
        assert_eq!(outside.bytes, identify(&outside.path).unwrap().bytes());
        assert_eq!(inside.bytes, identify(&inside.path).unwrap().bytes());
    }

    #[test]
    fn nothing_else_is_left_in_the_folder() {
        let (folder, ..) = make(
            "conv",
            &Options {
                weights: Weights::External,
                ..small("conv")
            },
        );
        let mut names: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["m.onnx", "m.onnx.data"]);
    }

    #[test]
    fn a_folder_that_is_missing_or_a_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        for parent in [folder.path().join("none"), file] {
            let error = find("conv")
                .unwrap()
                .make(&small("conv"), &parent.join("m.onnx"))
                .unwrap_err();
            assert!(
                matches!(&error, MakeError::Folder { folder, .. } if *folder == parent),
                "{error}"
            );
        }
    }

    #[test]
    fn sizes_a_network_does_not_have_or_cannot_take_are_refused() {
        let fail = |name: &str, options: &Options| {
            find(name)
                .unwrap()
                .make(options, Path::new("/nonexistent/m.onnx"))
                .unwrap_err()
        };
        let size = |size| Options {
            size,
            ..Options::default()
        };
        let error = fail(
            "matmul",
            &size(Size {
                image: Some(8),
                ..Size::default()
            }),
        );
        assert_eq!(
            error.to_string(),
            "network matmul has no image; it has depth, width"
        );
        let error = fail(
            "conv",
            &size(Size {
                channels: Some(0),
                ..Size::default()
            }),
        );
        assert!(matches!(
            error,
            MakeError::SizeOutOfRange {
                name: "channels",
                value: 0,
                ..
            }
        ));
        let big = size(Size {
            depth: Some(8),
            width: Some(16384),
            ..Size::default()
        });
        assert!(matches!(
            fail("matmul", &big),
            MakeError::TooLargeInside {
                bytes: 8_590_458_880,
                ..
            }
        ));
        let huge = size(Size {
            depth: Some(1024),
            width: Some(32768),
            ..Size::default()
        });
        assert!(matches!(fail("matmul", &huge), MakeError::TooLarge { .. }));
        assert!(
            find("vgg")
                .unwrap_err()
                .to_string()
                .contains("conv, depthwise, residual, matmul")
        );
    }
}
