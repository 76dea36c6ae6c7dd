//! `conv`: 3x3 convolutions in a row.

use super::draw::{Conv, Drawing};
use super::options::Plan;

/// `depth` times convolution and `Relu`, all at the size of the input.
pub(super) fn draw(plan: &Plan) -> Drawing {
    let (mut drawing, mut image) = Drawing::over_image(plan);
    for _ in 0..plan.depth {
        image = drawing.conv(&image, &Conv::new(plan.channels, 3));
        image = drawing.relu(&image);
    }
    drawing.classify(&image);
    drawing
}
