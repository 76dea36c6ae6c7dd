//! `depthwise`: depthwise-separable convolutions, as in MobileNet (Howard et al. 2017).

use super::draw::{Conv, Drawing, Image};
use super::options::Plan;

/// A first convolution that halves the image, then `depth` times depthwise 3x3 and pointwise 1x1.
pub(super) fn draw(plan: &Plan) -> Drawing {
    let (mut drawing, input) = Drawing::over_image(plan);
    let first = Conv {
        stride: 2,
        ..Conv::new(plan.channels, 3)
    };
    let mut image = clipped(&mut drawing, &input, &first);
    for _ in 0..plan.depth {
        let depthwise = Conv {
            groups: plan.channels,
            ..Conv::new(plan.channels, 3)
        };
        image = clipped(&mut drawing, &image, &depthwise);
        image = clipped(&mut drawing, &image, &Conv::new(plan.channels, 1));
    }
    drawing.classify(&image);
    drawing
}

fn clipped(drawing: &mut Drawing, from: &Image, conv: &Conv) -> Image {
    let image = drawing.conv(from, conv);
    drawing.clip(&image)
}
