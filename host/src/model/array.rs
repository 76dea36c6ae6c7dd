//! Arrays and the `.npy` format.
//!
//! The format is the one of NumPy's documentation (`numpy.lib.format`): a magic string, a version,
//! a Python dictionary as text with type, order and shape, then the elements.

use std::io::{self, Read, Write};

use edgedyno_shared::units::Bytes;
use thiserror::Error;

use super::element::ElementType;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// NumPy itself reads no longer header.
const HEADER_LIMIT: usize = 10_000;
/// NumPy has no array of more dims.
const RANK_LIMIT: usize = 64;
/// Larger inputs are no inputs.
const BYTES_LIMIT: u64 = 4 << 30;
/// The elements begin at a multiple of this.
const ALIGNMENT: usize = 64;

/// The types an input may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DType {
    F32,
    F64,
    F16,
    I8,
    U8,
    I16,
    I32,
    I64,
    Bool,
}

/// Each type, its `.npy` spelling and its ONNX number.
const DTYPES: &[(DType, &str, ElementType)] = &[
    (DType::F32, "<f4", ElementType::F32),
    (DType::F64, "<f8", ElementType::F64),
    (DType::F16, "<f2", ElementType::F16),
    (DType::I8, "|i1", ElementType::I8),
    (DType::U8, "|u1", ElementType::U8),
    (DType::I16, "<i2", ElementType::I16),
    (DType::I32, "<i4", ElementType::I32),
    (DType::I64, "<i8", ElementType::I64),
    (DType::Bool, "|b1", ElementType::BOOL),
];

impl DType {
    /// Bytes of one element.
    pub fn bytes(self) -> u64 {
        match self {
            Self::I8 | Self::U8 | Self::Bool => 1,
            Self::F16 | Self::I16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }

    /// The ONNX element type.
    pub fn element(self) -> ElementType {
        self.row().2
    }

    /// The type for an ONNX element type, if inputs may have it.
    pub fn from_element(element: ElementType) -> Option<Self> {
        DTYPES.iter().find(|row| row.2 == element).map(|row| row.0)
    }

    fn descr(self) -> &'static str {
        self.row().1
    }

    fn row(self) -> &'static (Self, &'static str, ElementType) {
        DTYPES
            .iter()
            .find(|row| row.0 == self)
            .expect("the table has every type, as a test shows")
    }

    fn from_descr(descr: &str) -> Result<Self, ArrayError> {
        if let Some(row) = DTYPES.iter().find(|row| row.1 == descr) {
            return Ok(row.0);
        }
        let swapped = descr.strip_prefix('>').map(|rest| format!("<{rest}"));
        if DTYPES.iter().any(|row| swapped.as_deref() == Some(row.1)) {
            return Err(ArrayError::BigEndian);
        }
        Err(ArrayError::DType {
            descr: descr.to_owned(),
        })
    }
}

/// Elements of one type in C order, little-endian; as many as the dims say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    dtype: DType,
    dims: Vec<u64>,
    data: Vec<u8>,
}

/// Why bytes are not an array.
#[derive(Debug, Error)]
pub enum ArrayError {
    #[error("it does not begin like an .npy file")]
    NotNpy,
    #[error("it has .npy version {0}, versions 1 to 3 are read")]
    Version(u8),
    #[error("its header {0}")]
    Header(&'static str),
    #[error("its elements are in Fortran order")]
    Fortran,
    #[error("its elements are big-endian")]
    BigEndian,
    #[error("its elements are {descr:?}")]
    DType { descr: String },
    #[error("its elements are {} {} than its dims ask for", Bytes(needs.abs_diff(*has)), if has < needs { "less" } else { "more" })]
    Length { needs: u64, has: u64 },
    #[error("its dims ask for more than the {} that are read", Bytes(BYTES_LIMIT))]
    TooLarge,
    #[error("an element of type bool is neither 0 nor 1")]
    Bool,
    #[error(transparent)]
    Read(#[from] io::Error),
}

impl ArrayError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotNpy | Self::Version(_) | Self::Header(_) => "write it with numpy.save",
            Self::Fortran => "save numpy.ascontiguousarray(a) instead",
            Self::BigEndian => "save a.astype(a.dtype.newbyteorder('<')) instead",
            Self::DType { .. } => {
                "convert it with astype to float16, 32, 64, int8, 16, 32, 64, uint8 or bool"
            }
            Self::Length { .. } => "copy or write the file again",
            Self::TooLarge => "use smaller inputs",
            Self::Bool => "save a.astype(bool) instead",
            Self::Read(_) => "check the file and its permissions",
        }
    }
}

impl Array {
    /// Joins elements with their dims.
    pub fn new(dtype: DType, dims: Vec<u64>, data: Vec<u8>) -> Result<Self, ArrayError> {
        let needs = bytes_of(dtype, &dims)?;
        let has = data.len() as u64;
        if needs != has {
            return Err(ArrayError::Length { needs, has });
        }
        if dtype == DType::Bool && data.iter().any(|byte| *byte > 1) {
            return Err(ArrayError::Bool);
        }
        Ok(Self { dtype, dims, data })
    }

    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Outermost first; none for a scalar.
    pub fn dims(&self) -> &[u64] {
        &self.dims
    }

    /// The elements, little-endian.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Reads an `.npy` file to its end.
    pub fn read_npy(mut source: impl Read) -> Result<Self, ArrayError> {
        let Header { dtype, dims } = Header::read(&mut source)?;
        let needs = bytes_of(dtype, &dims)?;
        let mut data = Vec::new();
        // One more than needed, to see that it ends there.
        source.take(needs + 1).read_to_end(&mut data)?;
        Self::new(dtype, dims, data)
    }

    /// Writes an `.npy` file, byte for byte as NumPy does.
    pub fn write_npy(&self, mut sink: impl Write) -> io::Result<()> {
        let shape = match &self.dims[..] {
            [one] => format!("({one},)"),
            dims => format!(
                "({})",
                dims.iter()
                    .map(u64::to_string)
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
        };
        let descr = self.dtype.descr();
        let mut header =
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
        // NumPy leaves room for the first dim to grow in place, then fills up and ends the line.
        if let Some(first) = self.dims.first() {
            header.extend(std::iter::repeat_n(' ', 21 - first.to_string().len()));
        }
        let before = MAGIC.len() + 4;
        let length = (before + header.len() + 1).next_multiple_of(ALIGNMENT) - before;
        header.extend(std::iter::repeat_n(' ', length - 1 - header.len()));
        header.push('\n');
        let length =
            u16::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        sink.write_all(MAGIC)?;
        sink.write_all(&[1, 0])?;
        sink.write_all(&length.to_le_bytes())?;
        sink.write_all(header.as_bytes())?;
        sink.write_all(&self.data)
    }
}

fn bytes_of(dtype: DType, dims: &[u64]) -> Result<u64, ArrayError> {
    let bytes = dims
        .iter()
        .try_fold(dtype.bytes(), |product, dim| product.checked_mul(*dim));
    bytes
        .filter(|bytes| *bytes <= BYTES_LIMIT)
        .ok_or(ArrayError::TooLarge)
}

struct Header {
    dtype: DType,
    dims: Vec<u64>,
}

impl Header {
    fn read(source: &mut impl Read) -> Result<Self, ArrayError> {
        let mut start = [0; 8];
        read_or(source, &mut start, ArrayError::NotNpy)?;
        if &start[..6] != MAGIC {
            return Err(ArrayError::NotNpy);
        }
        let cut = || ArrayError::Header("is cut short");
        let length = match start[6] {
            1 => {
                let mut length = [0; 2];
                read_or(source, &mut length, cut())?;
                usize::from(u16::from_le_bytes(length))
            }
            2 | 3 => {
                let mut length = [0; 4];
                read_or(source, &mut length, cut())?;
                u32::from_le_bytes(length) as usize
            }
            version => return Err(ArrayError::Version(version)),
        };
        if length > HEADER_LIMIT {
            return Err(ArrayError::Header("is too long"));
        }
        let mut text = vec![0; length];
        read_or(source, &mut text, cut())?;
        let text = std::str::from_utf8(&text).map_err(|_| ArrayError::Header("is not text"))?;
        Self::parse(text)
    }

    fn parse(text: &str) -> Result<Self, ArrayError> {
        let mut literal = Literal { rest: text };
        let (mut descr, mut fortran, mut dims) = (None, None, None);
        literal.expect('{')?;
        while !literal.accept('}') {
            let key = literal.string()?;
            literal.expect(':')?;
            match key {
                "descr" if literal.peek() == Some('[') => {
                    return Err(ArrayError::DType {
                        descr: "a structure".to_owned(),
                    });
                }
                "descr" => descr = Some(literal.string()?),
                "fortran_order" => fortran = Some(literal.boolean()?),
                "shape" => dims = Some(literal.tuple()?),
                _ => return Err(ArrayError::Header("has an unknown key")),
            }
            if !literal.accept(',') && literal.peek() != Some('}') {
                return Err(ArrayError::Header("is not a dictionary"));
            }
        }
        let (Some(descr), Some(fortran), Some(dims)) = (descr, fortran, dims) else {
            return Err(ArrayError::Header("lacks a key"));
        };
        let dtype = DType::from_descr(descr)?;
        if fortran {
            Err(ArrayError::Fortran)
        } else {
            Ok(Self { dtype, dims })
        }
    }
}

/// Fills `bytes`, or fails with `short` when the source ends before.
fn read_or(source: &mut impl Read, bytes: &mut [u8], short: ArrayError) -> Result<(), ArrayError> {
    source.read_exact(bytes).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => short,
        _ => ArrayError::Read(e),
    })
}

/// As much of Python's literals as NumPy writes.
struct Literal<'a> {
    rest: &'a str,
}

impl<'a> Literal<'a> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn accept(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.rest = &self.rest[wanted.len_utf8()..];
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Result<(), ArrayError> {
        if self.accept(wanted) {
            Ok(())
        } else {
            Err(ArrayError::Header("is not a dictionary"))
        }
    }

    fn string(&mut self) -> Result<&'a str, ArrayError> {
        let Some(quote @ ('\'' | '"')) = self.peek() else {
            return Err(ArrayError::Header("has something else where text belongs"));
        };
        let (text, rest) = self.rest[1..]
            .split_once(quote)
            .ok_or(ArrayError::Header("has text without an end"))?;
        self.rest = rest;
        Ok(text)
    }

    fn boolean(&mut self) -> Result<bool, ArrayError> {
        self.peek();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err(ArrayError::Header(
            "has something else where True or False belongs",
        ))
    }

    fn tuple(&mut self) -> Result<Vec<u64>, ArrayError> {
        let mut numbers = Vec::new();
        self.expect('(')?;
        while !self.accept(')') {
            numbers.push(self.number()?);
            if numbers.len() > RANK_LIMIT {
                return Err(ArrayError::Header("has too many dims"));
            }
            if !self.accept(',') && self.peek() != Some(')') {
                return Err(ArrayError::Header("has no good shape"));
            }
        }
        Ok(numbers)
    }

    fn number(&mut self) -> Result<u64, ArrayError> {
        self.peek();
        let length = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at(length);
        self.rest = rest;
        digits
            .parse()
            .map_err(|_| ArrayError::Header("has no good shape"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // Made with NumPy 2.4.6; see `fixtures/make.py`.
    const F32: &[u8] = include_bytes!("fixtures/f32.npy");
    const SCALAR: &[u8] = include_bytes!("fixtures/scalar.npy");
    const FORTRAN: &[u8] = include_bytes!("fixtures/fortran.npy");
    const BIG_ENDIAN: &[u8] = include_bytes!("fixtures/big_endian.npy");

    fn written(array: &Array) -> Vec<u8> {
        let mut bytes = Vec::new();
        array.write_npy(&mut bytes).unwrap();
        bytes
    }

    fn with_header(header: &str, data: &[u8]) -> Vec<u8> {
        let length = (header.len() as u16).to_le_bytes();
        [MAGIC, &[1, 0][..], &length, header.as_bytes(), data].concat()
    }

    #[test]
    fn arrays_of_numpy_are_read_and_written_to_the_same_bytes() {
        let array = Array::read_npy(F32).unwrap();
        let data: Vec<u8> = (0..6).flat_map(|i| (i as f32).to_le_bytes()).collect();
        assert_eq!(array, Array::new(DType::F32, vec![2, 3], data).unwrap());
        assert!(written(&array) == F32);
        let scalar = Array::read_npy(SCALAR).unwrap();
        assert_eq!(
            scalar,
            Array::new(DType::I64, vec![], (-7_i64).to_le_bytes().to_vec()).unwrap()
        );
        assert!(written(&scalar) == SCALAR);
    }

    #[test]
    fn what_other_tools_write_is_read_too() {
        let header = "{\"shape\":(2,),\"fortran_order\":False,\"descr\":\"|u1\"}";
        let array = Array::read_npy(&with_header(header, &[1, 2])[..]).unwrap();
        assert_eq!(
            (array.dtype(), array.dims(), array.data()),
            (DType::U8, &[2][..], &[1, 2][..])
        );
        let mut two = with_header(header, &[1, 2]);
        two.splice(6..10, [2, 0, header.len() as u8, 0, 0, 0]);
        assert_eq!(Array::read_npy(&two[..]).unwrap(), array);
    }

    #[test]
    fn orders_and_types_that_are_not_taken_have_a_hint() {
        let fail = |bytes: &[u8]| Array::read_npy(bytes).unwrap_err();
        let fortran = fail(FORTRAN);
        assert!(matches!(fortran, ArrayError::Fortran));
        assert!(fortran.hint().contains("ascontiguousarray"));
        assert!(matches!(fail(BIG_ENDIAN), ArrayError::BigEndian));
        for descr in ["'<u4'", "'<c8'", "'|S3'", "[('a', '<f4')]", "'>u2'"] {
            let header = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (1,), }}");
            assert!(
                matches!(
                    fail(&with_header(&header, &[0; 8])),
                    ArrayError::DType { .. }
                ),
                "{descr}"
            );
        }
    }

    #[test]
    fn the_elements_must_be_as_many_as_the_dims_say() {
        let short = Array::read_npy(&F32[..F32.len() - 1]).unwrap_err();
        assert!(
            matches!(short, ArrayError::Length { needs: 24, has: 23 }),
            "{short}"
        );
        let long = Array::read_npy(&[F32, &[0, 0]].concat()[..]).unwrap_err();
        assert!(
            matches!(long, ArrayError::Length { needs: 24, has: 25 }),
            "{long}"
        );
        for shape in ["(4294967297,)", "(18446744073709551615, 2)"] {
            let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}");
            let error = Array::read_npy(&with_header(&header, &[])[..]).unwrap_err();
            assert!(matches!(error, ArrayError::TooLarge), "{shape}: {error}");
        }
        assert!(matches!(
            Array::new(DType::Bool, vec![2], vec![1, 2]),
            Err(ArrayError::Bool)
        ));
    }

    #[test]
    fn damaged_headers_are_refused() {
        for header in [
            "",
            "{",
            "{}",
            "[]",
            "{'descr' '<f4'}",
            "{'descr': '<f4}",
            "{'shape': (1 2)}",
            "{'shape': (-1,)}",
            "{'fortran_order': Maybe}",
            "{'other': 1}",
            "{'descr': '<f4', 'shape': ()}",
            "{'descr': '<f4' 'shape': (), 'fortran_order': False}",
            "{'shape': (99999999999999999999999,)}",
        ] {
            let error = Array::read_npy(&with_header(header, &[])[..]).unwrap_err();
            assert!(matches!(error, ArrayError::Header(_)), "{header}: {error}");
        }
        assert!(matches!(
            Array::read_npy(&b"\x93NUMPY\x09\0"[..]),
            Err(ArrayError::Version(9))
        ));
        assert!(matches!(
            Array::read_npy(&b"PK\x03\x04"[..]),
            Err(ArrayError::NotNpy)
        ));
    }

    #[test]
    fn the_table_has_every_type_with_its_size() {
        for (dtype, descr, element) in DTYPES {
            assert_eq!(dtype.bytes().to_string(), descr[2..]);
            assert_eq!(element.bits(), Some(8 * dtype.bytes()));
            assert_eq!(DType::from_element(dtype.element()), Some(*dtype));
        }
        let all = [
            DType::F32,
            DType::F64,
            DType::F16,
            DType::I8,
            DType::U8,
            DType::I16,
            DType::I32,
            DType::I64,
            DType::Bool,
        ];
        assert_eq!(all.map(DType::descr).len(), DTYPES.len());
    }

    prop_compose! {
        fn any_array()(
            row in 0..DTYPES.len(),
            dims in prop::collection::vec(0_u64..5, 0..5),
            seed in any::<u8>(),
        ) -> Array {
            let dtype = DTYPES[row].0;
            let bytes = dims.iter().product::<u64>() * dtype.bytes();
            let modulus = if dtype == DType::Bool { 2 } else { 251 };
            let data = (0..bytes).map(|i| ((i + u64::from(seed)) % modulus) as u8).collect();
            Array::new(dtype, dims, data).unwrap()
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(array in any_array()) {
            let bytes = written(&array);
            prop_assert_eq!((bytes.len() - array.data().len()) % ALIGNMENT, 0);
            prop_assert_eq!(Array::read_npy(&bytes[..]).unwrap(), array);
        }

        #[test]
        fn damaged_bytes_give_an_answer(
            edits in prop::collection::vec((0..F32.len(), any::<u8>()), 0..8),
            cut in 0..=F32.len(),
        ) {
            let mut bytes = F32.to_vec();
            for (at, byte) in edits {
                bytes[at] = byte;
            }
            let _ = Array::read_npy(&bytes[..cut]);
        }

        #[test]
        fn any_header_gives_an_answer(header in "[{}()\\[\\]',: a-zé0-9<]{0,60}") {
            let _ = Array::read_npy(&with_header(&header, &[0; 4])[..]);
        }
    }
}
