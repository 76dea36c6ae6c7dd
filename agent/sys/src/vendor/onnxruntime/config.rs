//! How a session is to run.

use std::path::PathBuf;

/// How a session is to run. The default is one thread and otherwise the runtime's own defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionConfig {
    /// Threads inside one operator, the calling one included; `None` leaves it to the runtime.
    ///
    /// The runtime's own choice takes one thread for each core of the machine and pins them, also to
    /// cores outside the process's CPU set (seen), so that it is hardly ever what one wants.
    pub intra_threads: Option<u32>,
    /// Threads across operators; they exist in [`ExecutionMode::Parallel`] only.
    pub inter_threads: Option<u32>,
    /// How much the graph is rewritten at load time.
    pub optimization: GraphOptimization,
    /// Whether independent operators run at the same time.
    pub execution: ExecutionMode,
    /// Whether freed memory is kept for the next run.
    pub cpu_arena: bool,
    /// Whether the memory of a run is planned as one block after the first.
    pub memory_pattern: bool,
    /// Entries such as `session.intra_op.allow_spinning` = `0`; the keys are in the header
    /// `onnxruntime_session_options_config_keys.h`.
    pub entries: Vec<(String, String)>,
    /// Sizes for the free dimensions of the model, by name.
    pub dimensions: Vec<(String, u64)>,
    /// Providers to try before the CPU, in order of preference.
    pub providers: Vec<Provider>,
    /// Turns the profiler on; the file is this text, a time stamp and `.json`.
    pub profile_prefix: Option<PathBuf>,
    /// Where to write the graph as it is after optimisation.
    pub optimized_model: Option<PathBuf>,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            intra_threads: Some(1),
            inter_threads: None,
            optimization: GraphOptimization::All,
            execution: ExecutionMode::Sequential,
            cpu_arena: true,
            memory_pattern: true,
            entries: Vec::new(),
            dimensions: Vec::new(),
            providers: Vec::new(),
            profile_prefix: None,
            optimized_model: None,
        }
    }
}

/// How much the graph is rewritten at load time; the numbers are the header's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphOptimization {
    /// Not at all.
    Disabled = 0,
    /// Rewrites that any provider understands.
    Basic = 1,
    /// Fusions into operators of the runtime's own.
    Extended = 2,
    /// Everything, memory layouts included.
    All = 99,
}

/// Whether independent operators run at the same time; the numbers are the header's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutionMode {
    /// One after another.
    Sequential = 0,
    /// On a pool of threads of their own.
    Parallel = 1,
}

/// An execution provider and its options, by the names the runtime's documentation gives them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// Short name, for example `XNNPACK` or `QNN`.
    pub name: String,
    /// Options of that provider.
    pub options: Vec<(String, String)>,
}
