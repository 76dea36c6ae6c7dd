//! NumPy's `.npy` files: one dense array each (format 1.0 to 3.0, NEP 1).

use edgedyno_shared::wire::failure::{Failure, FailureCode};

use super::{DType, Tensor};

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// What the header says, and where the data begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<u64>,
    pub(crate) data: usize,
}

pub(crate) fn is_npy(file: &[u8]) -> bool {
    file.starts_with(MAGIC)
}

/// Reads the header at the beginning of a file; the rest need not be there.
///
/// # Errors
/// [`FailureCode::InputInvalid`] for another order of bytes or elements, a type that no input has,
/// or a header that is none.
pub(crate) fn header(file: &[u8]) -> Result<Header, Failure> {
    let bad = || invalid("the .npy header cannot be read");
    let rest = file.strip_prefix(MAGIC).ok_or_else(bad)?;
    let (length, start) = match *rest {
        [1, _, a, b, ..] => (u32::from_le_bytes([a, b, 0, 0]) as usize, 10),
        [2 | 3, _, a, b, c, d, ..] => (u32::from_le_bytes([a, b, c, d]) as usize, 12),
        _ => return Err(bad()),
    };
    let data = length.checked_add(start).ok_or_else(bad)?;
    let text = file
        .get(start..data)
        .and_then(|t| std::str::from_utf8(t).ok())
        .ok_or_else(bad)?;
    if entry(text, "fortran_order")
        .ok_or_else(bad)?
        .starts_with("True")
    {
        return Err(
            invalid("the .npy file is in Fortran order").hint("save numpy.ascontiguousarray(a)")
        );
    }
    let shape = entry(text, "shape").and_then(parse_shape).ok_or_else(bad)?;
    let dtype = parse_dtype(entry(text, "descr").ok_or_else(bad)?)?;
    Ok(Header { dtype, shape, data })
}

/// The file of a tensor, as `numpy.save` writes it.
pub fn write(tensor: &Tensor) -> Vec<u8> {
    let shape = match tensor.shape.as_slice() {
        [one] => format!("({one},)"),
        dims => format!(
            "({})",
            dims.iter()
                .map(u64::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        ),
    };
    let descr = descr(tensor.dtype);
    let dict = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    // Spaces up to a line end, so that the data begins at a multiple of 64.
    let length = (dict.len() + 1 + 10).next_multiple_of(64) - 10;
    let mut out = Vec::with_capacity(10 + length + tensor.bytes.len());
    out.extend(MAGIC);
    out.extend([1, 0]);
    out.extend((length as u16).to_le_bytes());
    out.extend(format!("{dict:width$}\n", width = length - 1).bytes());
    out.extend(&tensor.bytes);
    out
}

/// What follows `'key':` in the header's dictionary.
fn entry<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let after = text.split_once(&format!("'{key}'"))?.1.trim_start();
    Some(after.strip_prefix(':')?.trim_start())
}

fn parse_shape(text: &str) -> Option<Vec<u64>> {
    let inside = text.strip_prefix('(')?.split_once(')')?.0;
    let cells = inside.split(',').map(str::trim).filter(|c| !c.is_empty());
    cells.map(|c| c.parse().ok()).collect()
}

fn parse_dtype(text: &str) -> Result<DType, Failure> {
    let quoted = text.strip_prefix('\'').and_then(|t| t.split_once('\''));
    let Some((descr, _)) = quoted else {
        return Err(invalid("the .npy file holds records").hint("save one field: a['name']"));
    };
    let plain = descr.replace(['<', '|', '='], "");
    if let Some(swapped) = descr.strip_prefix('>') {
        return Err(invalid(format!("the .npy file is big-endian ({descr})"))
            .hint(format!("save a.astype('<{swapped}')")));
    }
    let known = DType::ALL
        .into_iter()
        .find(|d| self::descr(*d)[1..] == plain);
    known.ok_or_else(|| invalid(format!("the .npy file holds `{descr}`, which no input has")))
}

/// NumPy's name of a type.
fn descr(dtype: DType) -> &'static str {
    match dtype {
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::I8 => "|i1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::U8 => "|u1",
        DType::U16 => "<u2",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
        DType::Bool => "|b1",
    }
}

fn invalid(detail: impl Into<String>) -> Failure {
    Failure::new(FailureCode::InputInvalid, detail)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A version 1.0 file with this dictionary.
    fn file(dict: &str) -> Vec<u8> {
        let length = (dict.len() as u16).to_le_bytes();
        [&MAGIC[..], &[1, 0], &length, dict.as_bytes()].concat()
    }

    fn refused(dict: &str) -> Failure {
        header(&file(dict)).unwrap_err()
    }

    #[test]
    fn a_header_of_numpy_is_read() {
        // numpy.save of numpy.zeros((2, 3), "float32"), numpy 1.26: 128 bytes before the data.
        let dict = format!(
            "{:<117}\n",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
        );
        let expected = Header {
            dtype: DType::F32,
            shape: vec![2, 3],
            data: 128,
        };
        assert_eq!(header(&file(&dict)), Ok(expected));
        let scalar = header(&file(
            "{'descr': '|b1', 'fortran_order': False, 'shape': (), }",
        ))
        .unwrap();
        assert_eq!((scalar.dtype, scalar.shape), (DType::Bool, vec![]));
    }

    #[test]
    fn other_orders_are_refused_with_what_to_save() {
        let fortran = refused("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }");
        assert_eq!(
            fortran.hint.as_deref(),
            Some("save numpy.ascontiguousarray(a)")
        );
        let big = refused("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }");
        assert_eq!(big.detail, "the .npy file is big-endian (>f4)");
        assert_eq!(big.hint.as_deref(), Some("save a.astype('<f4')"));
    }

    #[test]
    fn types_that_no_input_has_are_named() {
        let text = refused("{'descr': '<U5', 'fortran_order': False, 'shape': (2,), }");
        assert!(text.detail.contains("`<U5`"), "{text}");
        refused("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }");
        refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2, -1), }");
    }

    #[test]
    fn what_is_written_is_read_back() {
        for (dtype, shape) in [
            (DType::F32, vec![2, 3]),
            (DType::I64, vec![4]),
            (DType::F16, vec![]),
        ] {
            let elements = Tensor::elements(&shape).unwrap() as usize;
            let bytes: Vec<u8> = (0..elements * dtype.size()).map(|i| i as u8).collect();
            let file = write(&Tensor {
                name: "x".into(),
                dtype,
                shape: shape.clone(),
                bytes: bytes.clone(),
            });
            let header = header(&file).unwrap();
            assert_eq!(header.data % 64, 0);
            assert_eq!(file[header.data - 1], b'\n');
            assert_eq!(
                (header.dtype, header.shape, &file[header.data..]),
                (dtype, shape, &bytes[..])
            );
        }
    }

    proptest! {
        #[test]
        fn hostile_headers_never_panic(version in 0_u8..5, rest: Vec<u8>, text: String) {
            let _ = header(&[&MAGIC[..], &[version, 0], &rest].concat());
            let _ = header(&file(&text.chars().take(9000).collect::<String>()));
        }
    }
}
