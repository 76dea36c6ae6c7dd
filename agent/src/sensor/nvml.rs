//! GPUs by NVML.

use std::path::PathBuf;

use edgedyno_sys::vendor::nvml::{ClockOf, Gpu, Nvml, NvmlError};

use super::{Devices, Figure, Missing, Refusal};

pub(super) const FIELDS: [&str; 10] = [
    "load",
    "memory_load",
    "memory_used",
    "freq",
    "sm_freq",
    "memory_freq",
    "temp",
    "power",
    "energy",
    "clock_reasons",
];

pub(super) fn open(path: PathBuf) -> Result<Box<dyn Devices>, (Refusal, String)> {
    let nvml = Nvml::open(&path).map_err(|why| {
        let refusal = match why {
            NvmlError::Load(_) => Refusal::Library,
            NvmlError::Code { .. } => Refusal::Start,
        };
        (refusal, why.to_string())
    })?;
    Ok(Box::new(nvml))
}

impl Devices for Nvml {
    fn count(&self) -> usize {
        Self::count(self).map_or(0, |count| count as usize)
    }

    fn read(&self, device: usize) -> Vec<Figure> {
        match self.gpu(device as u32) {
            Ok(gpu) => figures(&gpu)
                .map(|figure| figure.map_err(|why| missing(&why)))
                .to_vec(),
            Err(why) => vec![Err(missing(&why)); FIELDS.len()],
        }
    }
}

/// In the order of [`FIELDS`] and the units of their channels.
fn figures(gpu: &Gpu<'_>) -> [Result<i64, NvmlError>; FIELDS.len()] {
    const PPM_OF_PERCENT: i64 = 10_000;
    let share = |percent: u32| i64::from(percent) * PPM_OF_PERCENT;
    let hz = |of| gpu.clock_mhz(of).map(|mhz| i64::from(mhz) * 1_000_000);
    let utilization = gpu.utilization();
    let shares = utilization.map(|(gpu, memory)| (share(gpu), share(memory)));
    let thousand = |value: u64| {
        i64::try_from(value)
            .unwrap_or(i64::MAX)
            .saturating_mul(1000)
    };
    [
        shares.clone().map(|(gpu, _)| gpu),
        shares.map(|(_, memory)| memory),
        gpu.memory_used()
            .map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX)),
        hz(ClockOf::Graphics),
        hz(ClockOf::Multiprocessors),
        hz(ClockOf::Memory),
        gpu.celsius().map(|celsius| i64::from(celsius) * 1000),
        gpu.milliwatts().map(|milli| i64::from(milli) * 1000),
        gpu.millijoules().map(thousand),
        gpu.clock_reasons()
            .map(|bits| i64::try_from(bits).unwrap_or(i64::MAX)),
    ]
}

fn missing(why: &NvmlError) -> Missing {
    if why.is_unsupported() {
        Missing::Unsupported
    } else if why.is_denied() {
        Missing::Denied
    } else if why.is_lost() {
        Missing::Lost
    } else {
        Missing::Failed
    }
}
