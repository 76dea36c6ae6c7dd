//! Which engine a clock is of, and which engines a case uses.

use crate::store::rows::CaseRow;

/// What has a clock beside the CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Every case moves data through it.
    Memory,
    Gpu,
    /// NPU, BPU, DLA.
    Npu,
}

/// The engines of accelerators that a case uses, as far as its backend tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    gpu: bool,
    npu: bool,
}

/// Backends that compute on CPUs, or not at all.
const ON_CPU: [&str; 3] = ["rten", "null", "fake"];

/// Providers of ONNX Runtime by what they compute on, in lower case without `ExecutionProvider`; of those
/// that stand in no list, such as QNN and OpenVINO, nobody knows it from the name.
const CPU_PROVIDERS: [&str; 5] = ["cpu", "xnnpack", "dnnl", "acl", "armnn"];
const GPU_PROVIDERS: [&str; 7] = [
    "cuda",
    "tensorrt",
    "nvtensorrtrtx",
    "rocm",
    "migraphx",
    "webgpu",
    "dml",
];
const NPU_PROVIDERS: [&str; 4] = ["rknpu", "vsinpu", "vitisai", "cann"];

/// Parts of devfreq devices' names, as drivers and device trees have them: `dmc` of Rockchip, `bwmgr` of
/// Jetson, `soc:ddrc-freq` and `gc8000` of the X5, `3d400000.memory-controller` of NXP.
const DEVICES: [(&str, Engine); 19] = [
    ("dmc", Engine::Memory),
    ("ddr", Engine::Memory),
    ("dram", Engine::Memory),
    ("memory", Engine::Memory),
    ("bwmgr", Engine::Memory),
    ("emc", Engine::Memory),
    ("gpu", Engine::Gpu),
    ("mali", Engine::Gpu),
    ("gp10b", Engine::Gpu),
    ("gv11b", Engine::Gpu),
    ("ga10b", Engine::Gpu),
    ("gb10b", Engine::Gpu),
    ("gc8000", Engine::Gpu),
    ("kgsl", Engine::Gpu),
    ("npu", Engine::Npu),
    ("bpu", Engine::Npu),
    ("dla", Engine::Npu),
    ("tpu", Engine::Npu),
    ("nna", Engine::Npu),
];

impl Used {
    pub const ALL: Self = Self {
        gpu: true,
        npu: true,
    };

    /// By a case's backend and its option `provider`. Of a backend that is not known here, all.
    pub fn of(backend: &str, provider: Option<&str>) -> Self {
        let all = Self::ALL;
        let none = Self {
            gpu: false,
            npu: false,
        };
        if ON_CPU.contains(&backend) {
            return none;
        }
        if backend != "onnxruntime" {
            return all;
        }
        let provider = provider.unwrap_or("cpu").to_lowercase();
        let provider = provider.trim_end_matches("executionprovider");
        match provider {
            name if CPU_PROVIDERS.contains(&name) => none,
            name if GPU_PROVIDERS.contains(&name) => Self { gpu: true, ..none },
            name if NPU_PROVIDERS.contains(&name) => Self { npu: true, ..none },
            _ => all,
        }
    }

    /// Of a stored case.
    pub fn of_case(case: &CaseRow) -> Self {
        let provider = case.options.get("provider");
        Self::of(&case.backend, provider.map(String::as_str))
    }

    /// Whether any accelerator is among them.
    pub fn has_any(self) -> bool {
        self.gpu || self.npu
    }

    pub fn has(self, engine: Engine) -> bool {
        match engine {
            Engine::Memory => true,
            Engine::Gpu => self.gpu,
            Engine::Npu => self.npu,
        }
    }
}

/// The engine that a devfreq device is; none where its name tells nothing.
pub fn of_device(device: &str) -> Option<Engine> {
    let device = device.to_lowercase();
    let found = DEVICES.iter().find(|(part, _)| device.contains(part));
    found.map(|(_, engine)| *engine)
}

/// The engine whose clock a channel shows; none where it shows no clock, or that of CPUs.
pub fn of_clock(channel: &str) -> Option<Engine> {
    let parts: Vec<&str> = channel.split('.').collect();
    match parts.as_slice() {
        ["devfreq", device, "freq"] => of_device(device),
        ["emc", "freq"] | ["tegrastats", "emc", "freq"] => Some(Engine::Memory),
        ["bpu" | "npu", _, "freq"] => Some(Engine::Npu),
        // The memory of a card is its own.
        ["nvml", _, "freq" | "sm_freq" | "memory_freq"] => Some(Engine::Gpu),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_of_the_engines_that_their_names_tell() {
        for (channel, engine) in [
            ("devfreq.dmc.freq", Some(Engine::Memory)),
            ("devfreq.soc_ddrc_freq.freq", Some(Engine::Memory)),
            (
                "devfreq.3d400000_memory_controller.freq",
                Some(Engine::Memory),
            ),
            ("devfreq.bwmgr.freq", Some(Engine::Memory)),
            ("emc.freq", Some(Engine::Memory)),
            ("tegrastats.emc.freq", Some(Engine::Memory)),
            ("devfreq.fb000000_gpu.freq", Some(Engine::Gpu)),
            ("devfreq.17000000_ga10b.freq", Some(Engine::Gpu)),
            ("devfreq.3c000000_gc8000.freq", Some(Engine::Gpu)),
            ("devfreq.fdab0000_npu.freq", Some(Engine::Npu)),
            ("bpu.0.freq", Some(Engine::Npu)),
            ("npu.0.freq", Some(Engine::Npu)),
            ("nvml.0.sm_freq", Some(Engine::Gpu)),
            ("devfreq.dmc.freq_max", None),
            ("devfreq.1d84000_ufshc.freq", None),
            ("cpu.policy0.freq", None),
        ] {
            assert_eq!(of_clock(channel), engine, "{channel}");
        }
    }

    #[test]
    fn a_case_uses_the_engines_of_its_backend_and_provider() {
        let used = |backend: &str, provider| {
            let used = Used::of(backend, provider);
            assert!(used.has(Engine::Memory));
            (used.has(Engine::Gpu), used.has(Engine::Npu))
        };
        assert_eq!(used("rten", None), (false, false));
        assert_eq!(used("onnxruntime", None), (false, false));
        assert_eq!(
            used("onnxruntime", Some("CPUExecutionProvider")),
            (false, false)
        );
        assert_eq!(used("onnxruntime", Some("XNNPACK")), (false, false));
        assert_eq!(used("onnxruntime", Some("CUDA")), (true, false));
        assert_eq!(
            used("onnxruntime", Some("TensorrtExecutionProvider")),
            (true, false)
        );
        assert_eq!(used("onnxruntime", Some("VSINPU")), (false, true));
        assert_eq!(used("onnxruntime", Some("QNN")), (true, true));
        assert_eq!(used("a backend of later", None), (true, true));
    }
}
