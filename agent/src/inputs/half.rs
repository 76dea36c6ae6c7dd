//! IEEE 754 binary16, of which stable Rust has no type.

/// The nearest half-precision value, ties to even, in bits.
pub(crate) fn to_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return sign | 0x7e00;
    }
    // 65520 is the first value that rounds beyond the largest finite half, 65504.
    if magnitude >= 0x477f_f000 {
        return sign | 0x7c00;
    }
    // Below 2^-14 the half is subnormal: a multiple of 2^-24, and f32 addition rounds to even.
    if magnitude < 0x3880_0000 {
        let rounded = f32::from_bits(magnitude) + 0.5;
        return sign | (rounded.to_bits() - 0.5_f32.to_bits()) as u16;
    }
    // Rebias the exponent (127 to 15), then round away the 13 lower bits to even.
    let rebased = magnitude - (112 << 23);
    let odd = (rebased >> 13) & 1;
    sign | ((rebased + 0xfff + odd) >> 13) as u16
}

/// The value of half-precision bits, exactly.
pub(crate) fn from_bits(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let magnitude = u32::from(bits & 0x7fff);
    let value = match magnitude {
        0x7c00.. => f32::from_bits(0x7f80_0000 | (magnitude & 0x3ff) << 13),
        0x400.. => f32::from_bits((magnitude << 13) + (112 << 23)),
        // Subnormal: a multiple of 2^-24.
        _ => magnitude as f32 * f32::from_bits(0x3380_0000),
    };
    f32::from_bits(value.to_bits() | sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_have_the_bits_of_the_standard() {
        let known = [
            (0.0, 0x0000),
            (-0.0, 0x8000),
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (65504.0, 0x7bff),
            (65519.0, 0x7bff),
            (65520.0, 0x7c00),
            (f32::INFINITY, 0x7c00),
            (0.333_333_34, 0x3555),
            (6.103_515_6e-5, 0x0400),
            (5.960_464_5e-8, 0x0001),
            (2.980_232_2e-8, 0x0000),
            (2.98e-8 * 1.01, 0x0001),
            (2049.0, 0x6800),
            (2051.0, 0x6802),
        ];
        for (value, bits) in known {
            assert_eq!(to_bits(value), bits, "{value}");
        }
        assert!(from_bits(to_bits(f32::NAN)).is_nan());
    }

    #[test]
    fn every_half_comes_back_from_its_value() {
        for bits in 0..=u16::MAX {
            let value = from_bits(bits);
            assert!(
                value.is_nan() || to_bits(value) == bits,
                "{bits:#x} {value}"
            );
        }
    }
}
