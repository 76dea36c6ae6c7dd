//! Temperatures of Hailo's chips by HailoRT.

use std::path::PathBuf;

use edgedyno_sys::vendor::hailo::{Hailo, HailoError};

use super::{Devices, Figure, Missing, Refusal};

pub(super) fn open(path: PathBuf) -> Result<Box<dyn Devices>, (Refusal, String)> {
    let hailo = Hailo::open(&path).map_err(|why| {
        let refusal = match why {
            HailoError::Load(_) => Refusal::Library,
            HailoError::Status { .. } => Refusal::Start,
        };
        (refusal, why.to_string())
    })?;
    Ok(Box::new(hailo))
}

impl Devices for Hailo {
    fn count(&self) -> usize {
        Self::count(self)
    }

    fn read(&self, device: usize) -> Vec<Figure> {
        let celsius = self.celsius(device).map_err(|_| Missing::Failed);
        let sane = celsius.and_then(|celsius| match celsius.is_finite() {
            true => Ok((f64::from(celsius) * 1e3).round() as i64),
            false => Err(Missing::Failed),
        });
        vec![sane]
    }
}
