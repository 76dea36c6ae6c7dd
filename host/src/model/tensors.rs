//! Input files of a run: `.npy`, `.npz`, raw bytes, or a folder of those.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use edgedyno_shared::units::Bytes;
use thiserror::Error;
use zip::ZipArchive;

use super::array::{Array, ArrayError};

/// Larger inputs are no inputs.
const RAW_LIMIT: u64 = 4 << 30;

/// One array or one file of raw bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// The member of an `.npz`, else the file name without its extension.
    pub name: String,
    /// The file it came from.
    pub path: PathBuf,
    pub values: Values,
}

/// What an input file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Values {
    Array(Array),
    /// Type and dims are those of the model input it is given to.
    Raw(Vec<u8>),
}

/// Inputs that cannot be read.
#[derive(Debug, Error)]
pub enum TensorError {
    #[error("input {} does not exist", path.display())]
    Missing { path: PathBuf },
    #[error("cannot read input {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("input {} is not a plain file", path.display())]
    NotAFile { path: PathBuf },
    #[error("folder {} has no input file", path.display())]
    EmptyFolder { path: PathBuf },
    #[error("input {} has {}, and no more than {} are read", path.display(), Bytes(*bytes), Bytes(RAW_LIMIT))]
    TooLarge { path: PathBuf, bytes: u64 },
    #[error("cannot use input {}", path.display())]
    Array { path: PathBuf, source: ArrayError },
    #[error("cannot use array {member:?} of {}", path.display())]
    Member {
        path: PathBuf,
        member: String,
        source: ArrayError,
    },
    #[error("{} is not a sound .npz file: {why}", path.display())]
    Npz { path: PathBuf, why: String },
}

impl TensorError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Missing { .. } | Self::Read { .. } => "check the path and its permissions",
            Self::NotAFile { .. } => "name a file, or a folder that holds only files",
            Self::EmptyFolder { .. } => "put .npy, .npz or raw files into it",
            Self::TooLarge { .. } => "use smaller inputs",
            Self::Array { source, .. } | Self::Member { source, .. } => source.hint(),
            Self::Npz { .. } => "write it with numpy.savez",
        }
    }
}

/// Reads a file, or every file of a folder in the order of their names; hidden ones are left out.
pub fn read_inputs(path: &Path) -> Result<Vec<Input>, TensorError> {
    let metadata = fs::metadata(path).map_err(read_error(path))?;
    if !metadata.is_dir() {
        return read_file(path);
    }
    let mut inputs = Vec::new();
    for file in files_in(path)? {
        inputs.append(&mut read_file(&file)?);
    }
    if inputs.is_empty() {
        return Err(TensorError::EmptyFolder {
            path: path.to_owned(),
        });
    }
    Ok(inputs)
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>, TensorError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(read_error(folder))? {
        let entry = entry.map_err(read_error(folder))?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

fn read_file(path: &Path) -> Result<Vec<Input>, TensorError> {
    let metadata = fs::metadata(path).map_err(read_error(path))?;
    if !metadata.is_file() {
        return Err(TensorError::NotAFile {
            path: path.to_owned(),
        });
    }
    let file = BufReader::new(File::open(path).map_err(read_error(path))?);
    let extension = path
        .extension()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase();
    match extension.as_str() {
        "npz" => read_npz(path, file),
        "npy" => match Array::read_npy(file) {
            Ok(array) => Ok(vec![input(path, Values::Array(array))]),
            Err(ArrayError::Read(source)) => Err(TensorError::Read {
                path: path.to_owned(),
                source,
            }),
            Err(source) => Err(TensorError::Array {
                path: path.to_owned(),
                source,
            }),
        },
        _ => Ok(vec![input(
            path,
            Values::Raw(read_raw(path, file, metadata.len())?),
        )]),
    }
}

fn input(path: &Path, values: Values) -> Input {
    let name = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    Input {
        name,
        path: path.to_owned(),
        values,
    }
}

fn read_raw(path: &Path, file: impl Read, bytes: u64) -> Result<Vec<u8>, TensorError> {
    if bytes > RAW_LIMIT {
        return Err(TensorError::TooLarge {
            path: path.to_owned(),
            bytes,
        });
    }
    let mut data = Vec::new();
    file.take(RAW_LIMIT)
        .read_to_end(&mut data)
        .map_err(read_error(path))?;
    Ok(data)
}

/// The arrays in the order they were given to `numpy.savez`.
fn read_npz(path: &Path, file: BufReader<File>) -> Result<Vec<Input>, TensorError> {
    let npz = |why: String| TensorError::Npz {
        path: path.to_owned(),
        why,
    };
    let mut archive = ZipArchive::new(file).map_err(|e| npz(e.to_string()))?;
    let mut inputs = Vec::new();
    let mut total = 0;
    for index in 0..archive.len() {
        let member = archive.by_index(index).map_err(|e| npz(e.to_string()))?;
        let file_name = member.name().map_err(|e| npz(e.to_string()))?.into_owned();
        let name = file_name
            .strip_suffix(".npy")
            .ok_or_else(|| npz(format!("{file_name:?} is not an array")))?;
        let array = Array::read_npy(member).map_err(|source| TensorError::Member {
            path: path.to_owned(),
            member: name.to_owned(),
            source,
        })?;
        // Each array is limited by itself; together they are too, as a small file may hold many.
        total += array.data().len() as u64;
        if total > RAW_LIMIT {
            return Err(TensorError::TooLarge {
                path: path.to_owned(),
                bytes: total,
            });
        }
        inputs.push(Input {
            name: name.to_owned(),
            path: path.to_owned(),
            values: Values::Array(array),
        });
    }
    if inputs.is_empty() {
        return Err(npz("it holds no array".to_owned()));
    }
    Ok(inputs)
}

fn read_error(path: &Path) -> impl FnOnce(io::Error) -> TensorError {
    let path = path.to_owned();
    move |source| match source.kind() {
        io::ErrorKind::NotFound => TensorError::Missing { path },
        _ => TensorError::Read { path, source },
    }
}

#[cfg(test)]
mod tests {
    use super::super::array::DType;
    use super::*;

    // Made with NumPy 2.4.6; see `fixtures/make.py`.
    const F32: &[u8] = include_bytes!("fixtures/f32.npy");
    const TWO: &[u8] = include_bytes!("fixtures/two.npz");

    fn folder_with(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        folder
    }

    fn array(input: &Input) -> &Array {
        match &input.values {
            Values::Array(array) => array,
            Values::Raw(_) => panic!("{} is raw", input.name),
        }
    }

    #[test]
    fn the_extension_decides_and_anything_else_is_raw() {
        let folder = folder_with(&[("x.npy", F32), ("y.NPY", F32), ("z.bin", F32)]);
        let read = |name: &str| read_inputs(&folder.path().join(name)).unwrap().remove(0);
        assert_eq!(read("x.npy").name, "x");
        assert_eq!(array(&read("x.npy")).dims(), [2, 3]);
        assert_eq!(array(&read("y.NPY")), array(&read("x.npy")));
        assert_eq!(read("z.bin").values, Values::Raw(F32.to_vec()));
    }

    #[test]
    fn an_npz_gives_its_arrays_by_name_in_their_order() {
        let folder = folder_with(&[("two.npz", TWO)]);
        let inputs = read_inputs(&folder.path().join("two.npz")).unwrap();
        assert_eq!(inputs.len(), 2);
        assert_eq!(
            (inputs[0].name.as_str(), inputs[1].name.as_str()),
            ("second", "first/ids:0")
        );
        let flags = Array::new(DType::Bool, vec![3], vec![1, 0, 1]).unwrap();
        assert_eq!(*array(&inputs[0]), flags);
        let ids: Vec<u8> = (0..300_i16).flat_map(|i| (i % 7).to_le_bytes()).collect();
        assert_eq!(
            *array(&inputs[1]),
            Array::new(DType::I16, vec![3, 100], ids).unwrap()
        );
    }

    #[test]
    fn a_folder_is_read_in_the_order_of_names() {
        let folder = folder_with(&[
            ("b.npz", TWO),
            ("c.raw", b"1"),
            ("a.npy", F32),
            (".hidden", b""),
        ]);
        let names: Vec<String> = read_inputs(folder.path())
            .unwrap()
            .into_iter()
            .map(|i| i.name)
            .collect();
        assert_eq!(names, ["a", "second", "first/ids:0", "c"]);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let folder = folder_with(&[
            ("cut.npz", &TWO[..100]),
            ("short.npy", &F32[..130]),
            ("empty.npy", b""),
        ]);
        let fail = |name: &str| read_inputs(&folder.path().join(name)).unwrap_err();
        assert!(matches!(fail("none.npy"), TensorError::Missing { .. }));
        assert!(matches!(fail("cut.npz"), TensorError::Npz { .. }));
        assert!(matches!(
            fail("short.npy"),
            TensorError::Array {
                source: ArrayError::Length { .. },
                ..
            }
        ));
        assert!(matches!(
            fail("empty.npy"),
            TensorError::Array {
                source: ArrayError::NotNpy,
                ..
            }
        ));
        let empty = tempfile::tempdir().unwrap();
        assert!(matches!(
            read_inputs(empty.path()),
            Err(TensorError::EmptyFolder { .. })
        ));
        fs::create_dir(empty.path().join("inner")).unwrap();
        assert!(matches!(
            read_inputs(empty.path()),
            Err(TensorError::NotAFile { .. })
        ));
    }

    #[test]
    fn a_damaged_npz_gives_an_answer() {
        for at in 0..TWO.len() {
            let mut bytes = TWO.to_vec();
            bytes[at] ^= 0xff;
            let folder = folder_with(&[("two.npz", &bytes)]);
            let _ = read_inputs(&folder.path().join("two.npz"));
        }
    }
}
