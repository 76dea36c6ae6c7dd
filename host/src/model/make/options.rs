//! What a network is made with: as asked for, and resolved against the network's defaults.

use super::error::MakeError;
use super::network::Network;

/// Largest value of each size; products of these still fit the figures.
const SIZE_LIMIT: u32 = 1 << 15;
const DEPTH_LIMIT: u32 = 1 << 10;

/// What the caller asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Sizes that are not given come from the network.
    pub size: Size,
    pub batch: u32,
    /// Names the batch `N` and the image `H` and `W` instead of fixing them.
    pub dynamic: bool,
    pub seed: u64,
    pub weights: Weights,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            size: Size::default(),
            batch: 1,
            dynamic: false,
            seed: 1,
            weights: Weights::Inside,
        }
    }
}

/// Sizes by name; each network knows some of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// Channels of every inner layer.
    pub channels: Option<u32>,
    /// Layers or blocks.
    pub depth: Option<u32>,
    /// Height and width of the input image.
    pub image: Option<u32>,
    /// Rows and columns of every matrix.
    pub width: Option<u32>,
}

impl Size {
    /// Those that have a value, by name.
    pub fn named(&self) -> Vec<(&'static str, u32)> {
        let all = [
            ("channels", self.channels),
            ("depth", self.depth),
            ("image", self.image),
            ("width", self.width),
        ];
        let given = all.into_iter();
        given
            .filter_map(|(name, size)| Some((name, size?)))
            .collect()
    }
}

/// Where the weights are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weights {
    Inside,
    /// Those of 1 KiB and more in `<file name>.data` beside the model.
    External,
}

/// Options that fit the network: sizes it does not have are 1 and are not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) channels: u64,
    pub(super) depth: u64,
    pub(super) image: u64,
    pub(super) width: u64,
    pub(super) batch: u64,
    pub(super) dynamic: bool,
}

impl Plan {
    pub(super) fn resolve(network: &Network, options: &Options) -> Result<Self, MakeError> {
        let (given, defaults) = (&options.size, &network.defaults);
        let pick = |name, given, default, limit| pick_size(network, name, given, default, limit);
        Ok(Self {
            channels: pick("channels", given.channels, defaults.channels, SIZE_LIMIT)?,
            depth: pick("depth", given.depth, defaults.depth, DEPTH_LIMIT)?,
            image: pick("image", given.image, defaults.image, SIZE_LIMIT)?,
            width: pick("width", given.width, defaults.width, SIZE_LIMIT)?,
            batch: pick("batch", Some(options.batch), Some(1), SIZE_LIMIT)?,
            dynamic: options.dynamic,
        })
    }
}

fn pick_size(
    network: &Network,
    name: &'static str,
    given: Option<u32>,
    default: Option<u32>,
    limit: u32,
) -> Result<u64, MakeError> {
    match (given, default) {
        (Some(_), None) => Err(MakeError::NoSuchSize {
            network: network.name,
            name,
            known: network.sizes(),
        }),
        (Some(value), Some(_)) if value == 0 || value > limit => {
            Err(MakeError::SizeOutOfRange { name, value, limit })
        }
        (given, default) => Ok(given.or(default).unwrap_or(1).into()),
    }
}
