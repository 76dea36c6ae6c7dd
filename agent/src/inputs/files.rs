//! Inputs from files: `.npy`, or raw bytes of the input's own type and shape.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use edgedyno_shared::case::{InputFile, InputSource, NamedShape};
use edgedyno_shared::wire::failure::{Failure, FailureCode};

use super::tensor::shape_text;
use super::{DType, Tensor, near, npy};
use crate::worker::job::Job;

/// What a file shall hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub name: String,
    pub dtype: DType,
    pub shape: Vec<u64>,
}

/// Reads one set: a tensor for every input, in the model's order.
///
/// # Errors
/// [`FailureCode::InputInvalid`] when an input has no file or two, or a file does not fit.
pub fn read_set(wanted: &[Wanted], files: &[InputFile], job: &Job) -> Result<Vec<Tensor>, Failure> {
    let names: Vec<&str> = wanted.iter().map(|w| w.name.as_str()).collect();
    for file in files {
        if file.input.is_empty() && names.len() > 1 {
            let detail = format!(
                "a file without a name, and the model has {} inputs",
                names.len()
            );
            let hint = format!("say whose it is: --input {}=FILE", names[0]);
            return Err(invalid(detail).hint(hint));
        }
        if !is_known(&file.input, &names) {
            return Err(invalid(format!(
                "a file is for input `{}`, which the model lacks",
                file.input
            ))
            .hint(near::hint(&file.input, &names)));
        }
    }
    wanted
        .iter()
        .map(|want| {
            let mut mine = files
                .iter()
                .filter(|f| f.input == want.name || f.input.is_empty());
            match (mine.next(), mine.next()) {
                (Some(file), None) => read_tensor(want, file, job),
                (None, _) => Err(invalid(format!("no file for input `{}`", want.name))),
                (Some(_), Some(_)) => Err(invalid(format!("two files for input `{}`", want.name))),
            }
        })
        .collect()
}

/// Shapes that the `.npy` files of the first set give; raw files give none.
///
/// # Errors
/// When a file cannot be read or its header is refused.
pub(crate) fn shapes(inputs: &[&str], job: &Job) -> Result<Vec<NamedShape>, Failure> {
    let InputSource::Files { sets } = &job.order.case.inputs.source else {
        return Ok(Vec::new());
    };
    let mut shapes = Vec::new();
    for file in sets.first().into_iter().flatten() {
        let input = match file.input.as_str() {
            "" => inputs.first().copied().unwrap_or_default(),
            name => name,
        };
        let head =
            read_head(path_of(file, job)?).map_err(|e| at_file(input, invalid(e.to_string())))?;
        if npy::is_npy(&head) {
            let dims = npy::header(&head).map_err(|e| at_file(input, e))?.shape;
            shapes.push(NamedShape {
                input: input.into(),
                dims,
            });
        }
    }
    Ok(shapes)
}

pub(super) fn is_known(name: &str, names: &[&str]) -> bool {
    // A file without a name is for a model with one input (or output) only.
    names.contains(&name) || (name.is_empty() && names.len() == 1)
}

pub(super) fn path_of<'a>(file: &InputFile, job: &'a Job) -> Result<&'a Path, Failure> {
    job.file(&file.sha256).map(|p| p.as_path()).ok_or_else(|| {
        Failure::new(
            FailureCode::NotFound,
            format!("input file {} is not on the board", file.sha256),
        )
    })
}

/// Enough of a file for every header that NumPy writes.
pub(super) fn read_head(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(16 << 10).read_to_end(&mut head)?;
    Ok(head)
}

pub(super) fn read_tensor(want: &Wanted, file: &InputFile, job: &Job) -> Result<Tensor, Failure> {
    let path = path_of(file, job)?;
    let content = fs::read(path).map_err(|e| at_file(&want.name, invalid(e.to_string())))?;
    let bytes = match npy::is_npy(&content) {
        true => npy_bytes(want, content),
        false => raw_bytes(want, content),
    };
    Ok(Tensor {
        name: want.name.clone(),
        dtype: want.dtype,
        shape: want.shape.clone(),
        bytes: bytes.map_err(|e| at_file(&want.name, e))?,
    })
}

fn npy_bytes(want: &Wanted, mut content: Vec<u8>) -> Result<Vec<u8>, Failure> {
    let header = npy::header(&content)?;
    check_header(&header, Some(want.dtype), Some(&want.shape))?;
    content.drain(..header.data);
    raw_bytes(want, content)
}

/// Whether a file holds what is wanted, as far as that is known.
pub(super) fn check_header(
    header: &npy::Header,
    dtype: Option<DType>,
    shape: Option<&[u64]>,
) -> Result<(), Failure> {
    if let Some(wanted) = dtype.filter(|wanted| *wanted != header.dtype) {
        let (has, wants) = (header.dtype.name(), wanted.name());
        return Err(invalid(format!("the file holds {has}, wanted is {wants}"))
            .hint(format!("save a.astype(numpy.{})", numpy_name(wanted))));
    }
    match shape {
        Some(wanted) if header.shape != wanted => Err(invalid(format!(
            "the file has shape {}, wanted is {}",
            shape_text(&header.shape),
            shape_text(wanted)
        ))),
        _ => Ok(()),
    }
}

fn raw_bytes(want: &Wanted, content: Vec<u8>) -> Result<Vec<u8>, Failure> {
    let elements = Tensor::elements(&want.shape);
    let size = elements.and_then(|n| n.checked_mul(want.dtype.size() as u64));
    match size == Some(content.len() as u64) {
        true => Ok(content),
        false => Err(invalid(format!(
            "the file has {} bytes of data, wanted are {} ({} of {})",
            content.len(),
            size.map_or("too many".into(), |s| s.to_string()),
            shape_text(&want.shape),
            want.dtype.name()
        ))),
    }
}

/// `float32`, `uint8`, `bool`.
fn numpy_name(dtype: DType) -> String {
    let name = dtype.name();
    match name.as_bytes()[0] {
        b'f' => name.replacen('f', "float", 1),
        b'i' => name.replacen('i', "int", 1),
        b'u' => name.replacen('u', "uint", 1),
        _ => name.into(),
    }
}

pub(super) fn at_file(name: &str, failure: Failure) -> Failure {
    Failure {
        detail: format!("file for `{name}`: {}", failure.detail),
        ..failure
    }
}

pub(super) fn invalid(detail: impl Into<String>) -> Failure {
    Failure::new(FailureCode::InputInvalid, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::testing;

    fn want(name: &str, dtype: DType, shape: &[u64]) -> Wanted {
        Wanted {
            name: name.into(),
            dtype,
            shape: shape.into(),
        }
    }

    fn npy(dtype: DType, shape: &[u64], bytes: &[u8]) -> Vec<u8> {
        let (name, shape, bytes) = (String::new(), shape.into(), bytes.into());
        npy::write(&Tensor {
            name,
            dtype,
            shape,
            bytes,
        })
    }

    /// Reads one file for one wanted input.
    fn read(want: Wanted, input: &str, content: &[u8]) -> Result<Tensor, Failure> {
        let mut job = testing::Files::default();
        let file = job.add(input, content);
        Ok(read_set(&[want], &[file], &job.job())?.remove(0))
    }

    #[test]
    fn npy_and_raw_files_give_the_same_tensor() {
        let bytes: Vec<u8> = (0..24).collect();
        let wanted = || want("x", DType::F32, &[2, 3]);
        let raw = read(wanted(), "x", &bytes).unwrap();
        assert_eq!((raw.name.as_str(), &raw.bytes), ("x", &bytes));
        assert_eq!(
            read(wanted(), "", &npy(DType::F32, &[2, 3], &bytes)).unwrap(),
            raw
        );
    }

    #[test]
    fn a_file_that_does_not_fit_says_what_it_has_and_what_is_wanted() {
        let wanted = || want("x", DType::F32, &[2]);
        let detail = |content: &[u8]| read(wanted(), "x", content).unwrap_err().detail;
        assert_eq!(
            detail(&[0; 7]),
            "file for `x`: the file has 7 bytes of data, wanted are 8 (2 of f32)"
        );
        assert_eq!(
            detail(&npy(DType::F32, &[1, 2], &[0; 8])),
            "file for `x`: the file has shape 1x2, wanted is 2"
        );
        assert!(detail(&npy(DType::F32, &[2], &[0; 4])).contains("has 4 bytes of data"));
        let failure = read(wanted(), "x", &npy(DType::F64, &[2], &[0; 16])).unwrap_err();
        assert_eq!(
            failure.detail,
            "file for `x`: the file holds f64, wanted is f32"
        );
        assert_eq!(
            failure.hint.as_deref(),
            Some("save a.astype(numpy.float32)")
        );
    }

    #[test]
    fn every_input_needs_exactly_one_file_of_its_name() {
        let mut files = testing::Files::default();
        let (x, y) = (files.add("x", &[1]), files.add("y", &[2]));
        let wanted = [want("x", DType::U8, &[1]), want("y", DType::U8, &[1])];
        let read = |list: &[&InputFile]| {
            let list: Vec<InputFile> = list.iter().map(|f| (*f).clone()).collect();
            read_set(&wanted, &list, &files.job()).map_err(|e| e.detail)
        };
        assert_eq!(read(&[&y, &x]).unwrap()[1].bytes, [2]);
        assert_eq!(read(&[&x]).unwrap_err(), "no file for input `y`");
        assert_eq!(read(&[&x, &y, &y]).unwrap_err(), "two files for input `y`");
        let stray = InputFile {
            input: "z".into(),
            ..x.clone()
        };
        assert!(
            read(&[&stray])
                .unwrap_err()
                .contains("`z`, which the model lacks")
        );
        let nameless = InputFile {
            input: String::new(),
            ..x.clone()
        };
        assert!(read(&[&nameless]).is_err());
    }

    #[test]
    fn npy_headers_give_shapes_and_raw_files_none() {
        let mut files = testing::Files::default();
        let set = vec![
            files.add("", &npy(DType::F32, &[1, 2], &[0; 8])),
            files.add("r", &[0]),
        ];
        let shapes = shapes(&["x", "r"], &files.job_with_sets(vec![set])).unwrap();
        assert_eq!(
            shapes,
            [NamedShape {
                input: "x".into(),
                dims: vec![1, 2]
            }]
        );
    }
}
