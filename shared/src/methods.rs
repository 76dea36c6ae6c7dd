//! Which of its stressors stress-ng is started with, and what each takes of a board.
//!
//! It has hundreds, and some fill disks, take all memory there is, or start processes without end. So what
//! is not in the list is not started: the host refuses it when it reads a condition, and the agent whatever
//! host asks.

/// What one takes beside its CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Some mebibytes: caches at most.
    Little,
    /// Memory, and the tool can be told how much.
    Memory,
}

/// One stressor of stress-ng.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Method {
    pub name: &'static str,
    pub takes: Takes,
}

/// The stressor that works by methods.
pub const STRESS_NG: &str = "stress-ng";

/// What it does where nobody says otherwise.
pub const USUAL: &str = "stream";

/// Those that write no file, bind themselves nowhere, and stay within what they are told.
pub const METHODS: &[Method] = &[
    memory("stream"),
    memory("vm"),
    memory("memrate"),
    little("atomic"),
    little("branch"),
    little("bsearch"),
    little("cache"),
    little("cpu"),
    little("crypt"),
    little("fp"),
    little("funccall"),
    little("goto"),
    little("hash"),
    little("heapsort"),
    little("hsearch"),
    little("icache"),
    little("l1cache"),
    little("list"),
    little("longjmp"),
    little("lsearch"),
    little("matrix"),
    little("matrix-3d"),
    little("memcpy"),
    little("mergesort"),
    little("nop"),
    little("qsort"),
    little("radixsort"),
    little("regs"),
    little("rotate"),
    little("shellsort"),
    little("skiplist"),
    little("str"),
    little("tree"),
    little("tsearch"),
    little("vecfp"),
    little("vecmath"),
    little("vecshuf"),
    little("vecwide"),
    little("wcs"),
    little("zlib"),
];

const fn memory(name: &'static str) -> Method {
    Method {
        name,
        takes: Takes::Memory,
    }
}

const fn little(name: &'static str) -> Method {
    Method {
        name,
        takes: Takes::Little,
    }
}

/// What a stressor that was ordered like this does; none where it has no methods.
///
/// # Errors
/// Why it cannot be ordered like this, with what can.
pub fn method_of(stressor: &str, method: Option<&str>) -> Result<Option<&'static Method>, String> {
    if stressor != STRESS_NG {
        return match method {
            None => Ok(None),
            Some(_) => Err(format!("{stressor} has one way only")),
        };
    }
    let name = method.unwrap_or(USUAL);
    let found = METHODS.iter().find(|method| method.name == name);
    found.map(Some).ok_or_else(|| {
        let names: Vec<&str> = METHODS.iter().map(|method| method.name).collect();
        format!(
            "`{name}` is no stressor of {STRESS_NG} that a load may have; there are {}",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fills_a_board_is_in_no_load() {
        for name in [
            "hdd",
            "bigheap",
            "all",
            "fork",
            "brk",
            "tmpfs",
            "swap",
            "mmap",
            "malloc",
            "memthrash",
            "io",
            "",
            "-stream",
            "stream --hdd 1",
            "Stream",
        ] {
            let why = method_of("stress-ng", Some(name)).unwrap_err();
            assert!(why.contains("there are stream, vm, memrate, "), "{why}");
        }
        let takes = |name| method_of("stress-ng", name).unwrap().unwrap().takes;
        assert_eq!(takes(None), Takes::Memory);
        assert_eq!(takes(Some("vm")), Takes::Memory);
        assert_eq!(takes(Some("memcpy")), Takes::Little);
    }

    #[test]
    fn only_one_stressor_has_methods() {
        for stressor in ["stressapptest", "io", "mem_read"] {
            assert_eq!(method_of(stressor, None), Ok(None));
            let why = method_of(stressor, Some("stream")).unwrap_err();
            assert_eq!(why, format!("{stressor} has one way only"));
        }
    }
}
