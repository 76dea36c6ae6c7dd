//! References of outputs: judged by name, type and shape before anything is measured, read after it.

use edgedyno_shared::artifact::file_stem;
use edgedyno_shared::case::InputFile;
use edgedyno_shared::repeat::TensorInfo;
use edgedyno_shared::wire::failure::Failure;

use super::files::{
    Wanted, at_file, check_header, invalid, is_known, path_of, read_head, read_tensor,
};
use super::{DType, Tensor, near, npy};
use crate::worker::job::Job;

/// Sees that every reference is of an output, and of its type and shape where the model tells them.
///
/// # Errors
/// `InputInvalid` for the first that is not, or cannot be read.
pub fn check_references(outputs: &[TensorInfo], job: &Job) -> Result<(), Failure> {
    let names: Vec<&str> = outputs.iter().map(|o| o.name.as_str()).collect();
    for file in &job.order.outputs.reference {
        let known = |name: &&str| is_of(file, name);
        if !names.iter().any(known) && !is_known(&file.input, &names) {
            let detail = format!(
                "a reference is for output `{}`, which the model lacks",
                file.input
            );
            return Err(invalid(detail).hint(near::hint(&file.input, &names)));
        }
    }
    for output in outputs {
        if let Some(file) = reference_of(&output.name, job) {
            check_file(output, file, job).map_err(|why| at_file(&output.name, why))?;
        }
    }
    Ok(())
}

fn check_file(output: &TensorInfo, file: &InputFile, job: &Job) -> Result<(), Failure> {
    let head = read_head(path_of(file, job)?).map_err(|why| invalid(why.to_string()))?;
    if !npy::is_npy(&head) {
        return Ok(());
    }
    let dtype = DType::from_name(&output.dtype);
    check_header(&npy::header(&head)?, dtype, output.effective.as_deref())
}

/// The reference of each output, and why one that was given cannot be used.
pub fn read_references(outputs: &[Tensor], job: &Job) -> Vec<Option<Result<Tensor, Failure>>> {
    let read = |output: &Tensor| {
        let wanted = Wanted {
            name: output.name.clone(),
            dtype: output.dtype,
            shape: output.shape.clone(),
        };
        reference_of(&output.name, job).map(|file| read_tensor(&wanted, file, job))
    };
    outputs.iter().map(read).collect()
}

fn reference_of<'a>(output: &str, job: &'a Job) -> Option<&'a InputFile> {
    let files = &job.order.outputs.reference;
    let named = files.iter().find(|file| is_of(file, output));
    named.or_else(|| files.iter().find(|file| file.input.is_empty()))
}

/// By its name, or by the name that its file has where that cannot be the output's own.
fn is_of(file: &InputFile, output: &str) -> bool {
    file.input == output || file.input == file_stem(output)
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::repeat::Dim;

    use super::*;
    use crate::inputs::testing;

    fn output(name: &str, dtype: &str, effective: Option<&[u64]>) -> TensorInfo {
        TensorInfo {
            name: name.into(),
            dtype: dtype.into(),
            declared: vec![Dim::Unknown],
            effective: effective.map(Into::into),
        }
    }

    fn tensor(name: &str, values: &[f32]) -> Tensor {
        Tensor {
            name: name.into(),
            dtype: DType::F32,
            shape: vec![values.len() as u64],
            bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        }
    }

    /// A job with one reference of two floats, under this name, and the folder it lies in.
    fn job(name: &str) -> (testing::Files, Job) {
        let mut files = testing::Files::default();
        let file = files.add(name, &npy::write(&tensor(name, &[1.0, 2.0])));
        let mut job = files.job();
        job.order.outputs.reference = vec![file];
        (files, job)
    }

    #[test]
    fn what_the_model_tells_is_checked_before_anything_runs() {
        let (_files, job) = job("y");
        let refused = |output: TensorInfo| check_references(&[output], &job).unwrap_err().detail;
        assert!(refused(output("z", "f32", None)).contains("`y`, which the model lacks"));
        assert!(refused(output("y", "f64", None)).contains("holds f32, wanted is f64"));
        assert!(refused(output("y", "f32", Some(&[3]))).contains("shape 2, wanted is 3"));
        for fits in [None, Some(&[2_u64][..])] {
            check_references(&[output("y", "f32", fits)], &job).unwrap();
        }
    }

    #[test]
    fn a_name_that_no_file_can_have_is_found_again() {
        let (_files, job) = job("prob_out");
        check_references(&[output("prob/out", "f32", Some(&[2]))], &job).unwrap();
        let read = read_references(&[tensor("prob/out", &[0.0, 0.0])], &job);
        assert_eq!(
            read[0].as_ref().unwrap().as_ref().unwrap().bytes,
            tensor("", &[1.0, 2.0]).bytes
        );
    }

    #[test]
    fn one_that_turns_out_not_to_fit_is_told_apart_from_none() {
        let outputs = [tensor("y", &[1.0]), tensor("other", &[1.0])];
        let (_files, job) = job("y");
        let read = read_references(&outputs, &job);
        assert!(matches!(read[0], Some(Err(_))) && read[1].is_none());
    }
}
