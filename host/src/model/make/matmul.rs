//! `matmul`: large matrices one after the other.

use super::draw::Drawing;
use super::options::Plan;

/// `depth` square matrices with `Relu` between them; at batch 1 each weight is read for one use.
pub(super) fn draw(plan: &Plan) -> Drawing {
    let (mut drawing, mut rows) = Drawing::over_rows(plan);
    for layer in 0..plan.depth {
        if layer > 0 {
            rows = drawing.relu_of(&rows);
        }
        rows = drawing.matmul(&rows, plan.width);
    }
    drawing.finish();
    drawing
}
