//! Joins a job to its inputs and outputs: what goes in, what is kept of what comes out.

use edgedyno_shared::artifact::{Artifact, ArtifactPart};
use edgedyno_shared::ids::Sha256;
use edgedyno_shared::repeat::{ModelInfo, OutputCheck, TextEvent};
use edgedyno_shared::wire::failure::Failure;
use edgedyno_shared::wire::frame;
use edgedyno_shared::wire::record::Record;
use sha2::{Digest, Sha256 as Hasher};

use super::job::Job;
use crate::inputs::check::check_outputs;
use crate::inputs::references::{check_references, read_references};
use crate::inputs::{InputSets, Tensor, npy};

/// Bytes of one part: half a frame leaves room for what stands around it.
const PART_BYTES: usize = frame::LIMIT / 2;

/// The inputs of a model. References are looked at too: a wrong one is found before the window.
pub(super) fn make(info: &ModelInfo, job: &Job) -> Result<InputSets, Failure> {
    check_references(&info.outputs, job)?;
    InputSets::for_job(&info.inputs, job)
}

/// Looks at every output once, beside its reference where one was given; and why a reference could not be
/// used after all, which takes nothing from what was measured.
pub(super) fn check(outputs: &[Tensor], job: &Job) -> (Vec<OutputCheck>, Vec<TextEvent>) {
    let mut unusable = Vec::new();
    let mut references = Vec::new();
    for reference in read_references(outputs, job) {
        references.push(match reference {
            Some(Ok(tensor)) => Some(tensor),
            Some(Err(why)) => {
                unusable.push(TextEvent {
                    lane: 0,
                    trial: None,
                    code: "reference_unusable".into(),
                    text: why.detail,
                });
                None
            }
            None => None,
        });
    }
    (check_outputs(outputs, &references), unusable)
}

/// Outputs as `.npy` files, each announced and then given in parts.
pub(super) fn artifacts(outputs: &[Tensor]) -> impl Iterator<Item = Record> {
    outputs.iter().enumerate().flat_map(|(number, tensor)| {
        let number = number as u32;
        let file = npy::write(tensor);
        let announced = Record::Artifact(Artifact {
            number,
            name: format!("{}.npy", tensor.name),
            kind: "output_tensor".into(),
            sha256: Sha256(Hasher::digest(&file).into()),
            bytes: file.len() as u64,
        });
        let parts: Vec<Record> = file
            .chunks(PART_BYTES)
            .map(|part| {
                Record::ArtifactPart(ArtifactPart {
                    number,
                    bytes: part.to_vec(),
                })
            })
            .collect();
        std::iter::once(announced).chain(parts)
    })
}
