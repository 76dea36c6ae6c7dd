//! Networks made from nothing: known figures, seeded weights, no download.
//!
//! A network is one file with one function that draws it, and one line in [`NETWORKS`].

mod conv;
mod depthwise;
mod draw;
mod error;
mod matmul;
mod network;
mod options;
mod residual;
mod save;
mod weights;

pub use error::MakeError;
pub use network::{Made, Network, find};
pub use options::{Options, Size, Weights};
pub use save::data_path;

/// Every network that can be made.
pub const NETWORKS: &[Network] = &[
    Network {
        name: "conv",
        about: "3x3 convolutions in a row: compute-bound",
        defaults: Size {
            channels: Some(32),
            depth: Some(8),
            image: Some(64),
            width: None,
        },
        draw: conv::draw,
    },
    Network {
        name: "depthwise",
        about: "depthwise-separable convolutions: many small operators",
        defaults: Size {
            channels: Some(64),
            depth: Some(10),
            image: Some(96),
            width: None,
        },
        draw: depthwise::draw,
    },
    Network {
        name: "residual",
        about: "residual blocks of two 3x3 convolutions",
        defaults: Size {
            channels: Some(32),
            depth: Some(6),
            image: Some(96),
            width: None,
        },
        draw: residual::draw,
    },
    Network {
        name: "matmul",
        about: "large matrices one after the other: memory-bound at batch 1",
        defaults: Size {
            channels: None,
            depth: Some(8),
            image: None,
            width: Some(1024),
        },
        draw: matmul::draw,
    },
];
