//! The inputs of a job: read from its files or generated, for the shapes that its model resolved.

use edgedyno_shared::case::{Generator, InputPolicy, InputSource};
use edgedyno_shared::repeat::TensorInfo;
use edgedyno_shared::units::Bytes;
use edgedyno_shared::wire::failure::{Failure, FailureCode};

use super::files::{Wanted, read_set};
use super::{DType, InputSets, Tensor, generate};
use crate::worker::job::Job;

/// Sets made for [`InputPolicy::Cycle`] when values are generated.
const GENERATED_SETS: u64 = 8;

/// Bytes that generated sets may take together; the first is made whatever its size.
const GENERATED_BYTES: u64 = 256 << 20;

impl InputSets {
    /// Reads or generates what the job asks for.
    ///
    /// # Errors
    /// [`FailureCode::InputInvalid`] when files or generator do not fit the model,
    /// [`FailureCode::OutOfMemory`] when a tensor has no room.
    pub fn for_job(inputs: &[TensorInfo], job: &Job) -> Result<Self, Failure> {
        let spec = &job.order.case.inputs;
        let wanted = inputs.iter().map(wanted).collect::<Result<Vec<_>, _>>()?;
        let (sets, generator, seed) = match &spec.source {
            InputSource::Generated { generator, seed } => (
                generate_sets(&wanted, spec.policy, generator, *seed)?,
                generator.clone(),
                *seed,
            ),
            InputSource::Files { .. } if spec.policy == InputPolicy::Fresh => {
                return Err(invalid("policy fresh draws its values and takes no files")
                    .hint("use --input-policy fixed or cycle with files"));
            }
            InputSource::Files { sets } if sets.is_empty() => {
                return Err(invalid("the folder of inputs holds no set of files"));
            }
            InputSource::Files { sets } => {
                let used = match spec.policy {
                    InputPolicy::Fixed => &sets[..1],
                    InputPolicy::Cycle | InputPolicy::Fresh => sets,
                };
                let read = used.iter().enumerate().map(|(i, files)| {
                    read_set(&wanted, files, job).map_err(|e| Failure {
                        detail: format!("set {i}: {}", e.detail),
                        ..e
                    })
                });
                (read.collect::<Result<_, _>>()?, Generator::Zeros, 0)
            }
        };
        Ok(Self {
            sets,
            policy: spec.policy,
            seed,
            generator,
        })
    }
}

fn wanted(info: &TensorInfo) -> Result<Wanted, Failure> {
    let dtype = DType::from_name(&info.dtype);
    match (dtype, &info.effective) {
        (Some(dtype), Some(shape)) => Ok(Wanted {
            name: info.name.clone(),
            dtype,
            shape: shape.clone(),
        }),
        (None, _) => Err(invalid(format!(
            "input `{}` holds {}, which cannot be given",
            info.name, info.dtype
        ))),
        (_, None) => Err(Failure::new(
            FailureCode::UnresolvedDims,
            format!("input `{}` has dimensions without a value", info.name),
        )),
    }
}

fn generate_sets(
    wanted: &[Wanted],
    policy: InputPolicy,
    generator: &Generator,
    seed: u64,
) -> Result<Vec<Vec<Tensor>>, Failure> {
    let bytes = wanted.iter().map(size).sum::<Result<u64, _>>()?;
    let count = match policy {
        InputPolicy::Cycle => GENERATED_SETS.min(GENERATED_BYTES / bytes.max(1)).max(1),
        InputPolicy::Fixed | InputPolicy::Fresh => 1,
    };
    let tensor = |set: u64, at: usize, want: &Wanted| {
        let mut bytes = zeroed(size(want)?)?;
        generate::fill(&mut bytes, want.dtype, generator, seed, stream(set, at))?;
        let (name, shape) = (want.name.clone(), want.shape.clone());
        Ok(Tensor {
            name,
            dtype: want.dtype,
            shape,
            bytes,
        })
    };
    (0..count)
        .map(|set| {
            wanted
                .iter()
                .enumerate()
                .map(|(at, want)| tensor(set, at, want))
                .collect()
        })
        .collect()
}

/// The stream of random numbers of one input in one set; a fresh trial counts as a set.
pub(super) fn stream(set: u64, input: usize) -> u64 {
    set.wrapping_mul(1 << 16).wrapping_add(input as u64)
}

fn size(want: &Wanted) -> Result<u64, Failure> {
    Tensor::elements(&want.shape)
        .and_then(|n| n.checked_mul(want.dtype.size() as u64))
        .filter(|bytes| i64::try_from(*bytes).is_ok())
        .ok_or_else(|| invalid(format!("input `{}` is larger than any memory", want.name)))
}

fn zeroed(bytes: u64) -> Result<Vec<u8>, Failure> {
    let mut out = Vec::new();
    out.try_reserve_exact(bytes as usize).map_err(|_| {
        Failure::new(
            FailureCode::OutOfMemory,
            format!("no room for an input of {}", Bytes(bytes)),
        )
    })?;
    out.resize(bytes as usize, 0);
    Ok(out)
}

fn invalid(detail: impl Into<String>) -> Failure {
    Failure::new(FailureCode::InputInvalid, detail)
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::case::InputSpec;

    use super::*;
    use crate::inputs::testing;

    fn info(name: &str, dtype: &str, shape: &[u64]) -> TensorInfo {
        TensorInfo {
            name: name.into(),
            dtype: dtype.into(),
            declared: Vec::new(),
            effective: Some(shape.into()),
        }
    }

    fn generated(policy: InputPolicy, inputs: &[TensorInfo]) -> Result<InputSets, Failure> {
        let source = InputSource::Generated {
            generator: Generator::Normal,
            seed: 3,
        };
        InputSets::for_job(
            inputs,
            &testing::job_with_inputs(InputSpec { source, policy }),
        )
    }

    #[test]
    fn a_fixed_set_is_the_first_of_a_cycle() {
        let inputs = [info("x", "f32", &[2, 2]), info("i", "i64", &[3])];
        let fixed = generated(InputPolicy::Fixed, &inputs).unwrap();
        let cycle = generated(InputPolicy::Cycle, &inputs).unwrap();
        assert_eq!((fixed.sets.len(), cycle.sets.len()), (1, 8));
        assert_eq!(fixed.sets[0], cycle.sets[0]);
        assert_ne!(cycle.sets[0][0].bytes, cycle.sets[1][0].bytes);
        assert_eq!(fixed.sets[0][1].bytes.len(), 24);
    }

    #[test]
    fn two_inputs_of_one_shape_get_different_values() {
        let inputs = [info("a", "f32", &[8]), info("b", "f32", &[8])];
        let sets = generated(InputPolicy::Fixed, &inputs).unwrap();
        assert_ne!(sets.sets[0][0].bytes, sets.sets[0][1].bytes);
    }

    #[test]
    fn impossible_inputs_are_refused() {
        let code = |inputs: &[TensorInfo]| generated(InputPolicy::Fixed, inputs).unwrap_err().code;
        assert_eq!(
            code(&[info("t", "string", &[1])]),
            FailureCode::InputInvalid
        );
        assert_eq!(
            code(&[info("x", "f32", &[u64::MAX, 2])]),
            FailureCode::InputInvalid
        );
        assert_eq!(
            code(&[info("x", "u8", &[1 << 62])]),
            FailureCode::OutOfMemory
        );
        let unresolved = TensorInfo {
            effective: None,
            ..info("x", "f32", &[])
        };
        assert_eq!(code(&[unresolved]), FailureCode::UnresolvedDims);
    }

    #[test]
    fn files_are_read_for_fixed_and_cycle_and_refused_for_fresh() {
        let mut files = testing::Files::default();
        let sets = vec![vec![files.add("x", &[1])], vec![files.add("x", &[2])]];
        let read = |policy| {
            let mut job = files.job_with_sets(sets.clone());
            job.order.case.inputs.policy = policy;
            InputSets::for_job(&[info("x", "u8", &[1])], &job)
        };
        assert_eq!(read(InputPolicy::Fixed).unwrap().sets.len(), 1);
        assert_eq!(read(InputPolicy::Cycle).unwrap().sets[1][0].bytes, [2]);
        assert_eq!(
            read(InputPolicy::Fresh).unwrap_err().code,
            FailureCode::InputInvalid
        );
    }
}
