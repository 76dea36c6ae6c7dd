//! Inputs and outputs bound to buffers, so that a run is one call.

use super::bound::{Bound, BoundOutput};
use super::fit::{chosen_outputs, matched_inputs};
use super::handle::Handle;
use super::outputs::{Output, runtime_outputs};
use super::result::{OrtError, c_text, check};
use super::session::Session;
use super::sys::{DEVICE_ALLOCATOR, MEMORY_DEFAULT, OrtIoBinding, OrtMemoryInfo, OrtRunOptions};
use crate::vendor::tensor::Tensor;
use crate::vendor::value::ValueInfo;

/// A session with all inputs and outputs bound.
pub struct Binding {
    // Fields are dropped in this order: each refers to those below it.
    binding: Handle<OrtIoBinding>,
    inputs: Vec<Bound>,
    outputs: Vec<BoundOutput>,
    run_options: Handle<OrtRunOptions>,
    memory: Handle<OrtMemoryInfo>,
    session: Session,
    has_run: bool,
}

/// Which outputs to compute.
#[derive(Debug, Clone, Copy)]
pub enum OutputChoice<'a> {
    /// Every output of the model.
    All,
    /// These, by name.
    Only(&'a [&'a str]),
}

impl Binding {
    pub(super) fn new(
        session: &Session,
        inputs: Vec<(String, Tensor)>,
        outputs: OutputChoice<'_>,
    ) -> Result<Self, OrtError> {
        let inputs = matched_inputs(session.inputs(), inputs)?;
        let outputs = chosen_outputs(session.outputs(), outputs)?;
        let mut binding = Self::empty(session.clone())?;
        for (name, tensor) in inputs {
            binding.add_input(&name, tensor)?;
        }
        for info in outputs {
            binding.add_output(info)?;
        }
        Ok(binding)
    }

    /// Runs the model once: one call into the runtime, and nothing allocated on this side.
    ///
    /// # Errors
    ///
    /// As the runtime reports them; the outputs are then undefined.
    #[inline]
    pub fn run(&mut self) -> Result<(), OrtError> {
        let table = &self.session.runtime().table;
        let (session, options) = (self.session.as_ptr(), self.run_options.as_ptr());
        // SAFETY: all three objects are alive, and so are the buffers bound; nobody else can use the
        // binding or its buffers meanwhile, for `self` is borrowed mutably.
        let status = unsafe { (table.RunWithBinding)(session, options, self.binding.as_ptr()) };
        check(table, "RunWithBinding", status)?;
        self.has_run = true;
        Ok(())
    }

    /// The session it was made from.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The tensor bound to an input.
    pub fn input(&self, name: &str) -> Option<&Tensor> {
        self.inputs
            .iter()
            .find(|input| input.name == name)
            .map(|input| &input.tensor)
    }

    /// The contents of an input, to be changed between runs.
    ///
    /// On the CPU the next run sees the change; other providers have copied the input when it was bound
    /// and see it after [`Binding::upload_inputs`].
    pub fn input_bytes_mut(&mut self, name: &str) -> Option<&mut [u8]> {
        self.inputs
            .iter_mut()
            .find(|input| input.name == name)
            .map(|input| input.tensor.bytes_mut())
    }

    /// Binds the inputs anew: a provider with memory of its own copies them there.
    ///
    /// # Errors
    ///
    /// As the runtime reports them.
    pub fn upload_inputs(&mut self) -> Result<(), OrtError> {
        let runtime = self.session.runtime();
        self.inputs
            .iter()
            .try_for_each(|input| input.bind_as_input(runtime, &self.binding))
    }

    /// Forgets where the runtime put outputs of unknown shape.
    ///
    /// The runtime keeps the buffers of the first run and refuses a run whose outputs have another shape
    /// (seen). Where shapes depend on the data, call this between runs; it does nothing when all are fixed.
    ///
    /// # Errors
    ///
    /// As the runtime reports them.
    pub fn forget_outputs(&mut self) -> Result<(), OrtError> {
        if self.has_fixed_outputs() {
            return Ok(());
        }
        self.has_run = false;
        let runtime = self.session.runtime();
        // SAFETY: the binding is alive.
        unsafe { (runtime.table.ClearBoundOutputs)(self.binding.as_ptr()) };
        self.outputs
            .iter()
            .try_for_each(|output| output.bind(runtime, &self.binding, &self.memory))
    }

    /// Whether all outputs are written into buffers made beforehand.
    pub fn has_fixed_outputs(&self) -> bool {
        self.outputs
            .iter()
            .all(|output| matches!(output, BoundOutput::Ours(_)))
    }

    /// The outputs of the last run, those of unknown shape as a copy.
    ///
    /// # Errors
    ///
    /// Before the first run, and as the runtime reports them.
    pub fn outputs(&self) -> Result<Vec<Output<'_>>, OrtError> {
        if !self.has_run {
            return Err(OrtError::NotRun);
        }
        if self.has_fixed_outputs() {
            return Ok(self
                .outputs
                .iter()
                .filter_map(BoundOutput::as_output)
                .collect());
        }
        let theirs = runtime_outputs(self.session.runtime(), &self.binding)?;
        let names = self.outputs.iter().map(BoundOutput::name);
        names
            .zip(theirs)
            .map(|(name, value)| value.copied(name))
            .collect()
    }

    /// The buffer of an output whose shape the model fixes, as the last run left it; allocates nothing.
    pub fn fixed_output(&self, name: &str) -> Option<&Tensor> {
        let bound = self.outputs.iter().find_map(|output| match output {
            BoundOutput::Ours(bound) if bound.name == name => Some(bound),
            _ => None,
        })?;
        Some(&bound.tensor)
    }

    /// Sets an entry for the runs to come, see `onnxruntime_run_options_config_keys.h`.
    ///
    /// # Errors
    ///
    /// As the runtime reports them.
    pub fn set_run_entry(&mut self, key: &str, value: &str) -> Result<(), OrtError> {
        let table = &self.session.runtime().table;
        let (key, value) = (c_text(key)?, c_text(value)?);
        // SAFETY: live options and two C texts, which are copied.
        let status = unsafe {
            (table.AddRunConfigEntry)(self.run_options.as_ptr(), key.as_ptr(), value.as_ptr())
        };
        check(table, "AddRunConfigEntry", status)
    }

    fn empty(session: Session) -> Result<Self, OrtError> {
        let runtime = session.runtime();
        let table = &runtime.table;
        let memory = Handle::make(
            runtime,
            "CreateCpuMemoryInfo",
            table.ReleaseMemoryInfo,
            |out| {
                // SAFETY: `out` takes a memory description.
                unsafe { (table.CreateCpuMemoryInfo)(DEVICE_ALLOCATOR, MEMORY_DEFAULT, out) }
            },
        )?;
        let run_options = Handle::make(
            runtime,
            "CreateRunOptions",
            table.ReleaseRunOptions,
            |out| {
                // SAFETY: `out` takes run options.
                unsafe { (table.CreateRunOptions)(out) }
            },
        )?;
        let binding = Handle::make(runtime, "CreateIoBinding", table.ReleaseIoBinding, |out| {
            // SAFETY: the session is alive and kept so by `self`; `out` takes a binding.
            unsafe { (table.CreateIoBinding)(session.as_ptr(), out) }
        })?;
        Ok(Self {
            binding,
            inputs: Vec::new(),
            outputs: Vec::new(),
            run_options,
            memory,
            session,
            has_run: false,
        })
    }

    fn add_input(&mut self, name: &str, tensor: Tensor) -> Result<(), OrtError> {
        let input = Bound::new(self.session.runtime(), &self.memory, name, tensor)?;
        input.bind_as_input(self.session.runtime(), &self.binding)?;
        self.inputs.push(input);
        Ok(())
    }

    fn add_output(&mut self, info: &ValueInfo) -> Result<(), OrtError> {
        let runtime = self.session.runtime();
        let output = BoundOutput::new(runtime, &self.memory, info)?;
        output.bind(runtime, &self.binding, &self.memory)?;
        self.outputs.push(output);
        Ok(())
    }
}
