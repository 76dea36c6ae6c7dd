//! `residual`: blocks with a way around them, as in ResNet (He et al. 2016).

use super::draw::{Conv, Drawing};
use super::options::Plan;

/// A first convolution that halves the image, then `depth` blocks of two 3x3 convolutions.
pub(super) fn draw(plan: &Plan) -> Drawing {
    let (mut drawing, input) = Drawing::over_image(plan);
    let first = drawing.conv(
        &input,
        &Conv {
            stride: 2,
            ..Conv::new(plan.channels, 3)
        },
    );
    let mut image = drawing.relu(&first);
    // Each block adds to what goes around it; with this gain `depth` blocks together add as much
    // as one would, and the activations stay in range at any depth.
    let gain = 1.0 / (plan.depth as f64).sqrt();
    for _ in 0..plan.depth {
        let inner = drawing.conv(&image, &Conv::new(plan.channels, 3));
        let inner = drawing.relu(&inner);
        let inner = drawing.conv(
            &inner,
            &Conv {
                gain,
                ..Conv::new(plan.channels, 3)
            },
        );
        let sum = drawing.add(&inner, &image);
        image = drawing.relu(&sum);
    }
    drawing.classify(&image);
    drawing
}
