//! Lists of CPUs as the kernel writes them.

/// `0-3,5`, from numbers that ascend.
pub fn ranges(cpus: &[u16]) -> String {
    let mut parts: Vec<(u16, u16)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(cpu) => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let text = |(first, last): &(u16, u16)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    parts.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_listed_as_the_kernel_lists_them() {
        assert_eq!(ranges(&[0, 1, 2, 3]), "0-3");
        assert_eq!(ranges(&[0, 2, 3, 7]), "0,2-3,7");
        assert_eq!(ranges(&[u16::MAX, 0]), "65535,0");
        assert_eq!(ranges(&[]), "");
    }
}
