//! Drawing a graph: nodes, the weights they need and the figures that follow.

use super::options::Plan;
use super::weights::{Fill, Weight};
use crate::model::element::ElementType;
use crate::model::onnx::{
    AttributeKind, AttributeProto, Dimension, DimensionValue, NodeProto, TensorShapeProto,
    TensorType, TypeProto, TypeValue, ValueInfoProto,
};

/// Values of the output: enough to compare two runs by.
pub(super) const OUTPUTS: u64 = 100;
const INPUT: &str = "input";
const OUTPUT: &str = "output";

/// A graph whose weights are described, not yet computed.
pub(super) struct Drawing {
    pub(super) nodes: Vec<NodeProto>,
    pub(super) weights: Vec<Weight>,
    pub(super) input: ValueInfoProto,
    pub(super) output: ValueInfoProto,
    /// At most 2^15 to the sixth power for each of a few thousand nodes.
    pub(super) macs: u128,
    batch: u64,
}

/// An image between two nodes: the value's name and its nominal shape.
#[derive(Clone)]
pub(super) struct Image {
    name: String,
    channels: u64,
    height: u64,
    width: u64,
}

/// A convolution with padding that keeps the size at stride 1, and a bias.
pub(super) struct Conv {
    pub(super) channels: u64,
    pub(super) kernel: u64,
    pub(super) stride: u64,
    pub(super) groups: u64,
    /// Factor on the weights beside the one for the fan-in.
    pub(super) gain: f64,
}

impl Conv {
    pub(super) fn new(channels: u64, kernel: u64) -> Self {
        Self {
            channels,
            kernel,
            stride: 1,
            groups: 1,
            gain: 1.0,
        }
    }
}

impl Drawing {
    /// A graph over an image of three channels.
    pub(super) fn over_image(plan: &Plan) -> (Self, Image) {
        let dims = [
            named(plan, "N", plan.batch),
            fixed(3),
            named(plan, "H", plan.image),
            named(plan, "W", plan.image),
        ];
        let image = Image {
            name: INPUT.into(),
            channels: 3,
            height: plan.image,
            width: plan.image,
        };
        (Self::new(plan, dims.to_vec(), OUTPUTS), image)
    }

    /// A graph over rows of `plan.width` numbers, giving as many.
    pub(super) fn over_rows(plan: &Plan) -> (Self, String) {
        let dims = vec![named(plan, "N", plan.batch), fixed(plan.width)];
        (Self::new(plan, dims, plan.width), INPUT.into())
    }

    fn new(plan: &Plan, input: Vec<Dimension>, outputs: u64) -> Self {
        Self {
            nodes: Vec::new(),
            weights: Vec::new(),
            input: value(INPUT, input),
            output: value(OUTPUT, vec![named(plan, "N", plan.batch), fixed(outputs)]),
            macs: 0,
            batch: plan.batch,
        }
    }

    pub(super) fn parameters(&self) -> u64 {
        self.weights.iter().map(Weight::elements).sum()
    }

    pub(super) fn parameter_bytes(&self) -> u64 {
        self.weights.iter().map(Weight::bytes).sum()
    }

    pub(super) fn conv(&mut self, from: &Image, conv: &Conv) -> Image {
        let Conv {
            channels,
            kernel,
            stride,
            groups,
            gain,
        } = *conv;
        let fan_in = from.channels / groups * kernel * kernel;
        let weight = self.weight(
            vec![channels, from.channels / groups, kernel, kernel],
            Fill::he(fan_in, gain),
        );
        let bias = self.weight(vec![channels], Fill::BIAS);
        let pad = kernel / 2;
        let attributes = vec![
            ints("dilations", &[1, 1]),
            int("group", groups),
            ints("kernel_shape", &[kernel, kernel]),
            ints("pads", &[pad; 4]),
            ints("strides", &[stride, stride]),
        ];
        let name = self.node("Conv", &[&from.name, &weight, &bias], attributes);
        // floor((size + 2 pad - kernel) / stride) + 1, with an odd kernel and pad = floor(kernel / 2).
        let shrink = |size: u64| (size - 1) / stride + 1;
        let to = Image {
            name,
            channels,
            height: shrink(from.height),
            width: shrink(from.width),
        };
        self.add_macs(&[to.height, to.width, channels, fan_in]);
        to
    }

    pub(super) fn relu(&mut self, from: &Image) -> Image {
        Image {
            name: self.relu_of(&from.name),
            ..from.clone()
        }
    }

    pub(super) fn relu_of(&mut self, from: &str) -> String {
        self.node("Relu", &[from], Vec::new())
    }

    /// `Clip` to 0..6, the activation of mobile networks.
    pub(super) fn clip(&mut self, from: &Image) -> Image {
        let name = self.node("Clip", &[&from.name, "clip_low", "clip_high"], Vec::new());
        if !self.weights.iter().any(|weight| weight.name == "clip_low") {
            self.weights.push(Weight::constant("clip_low", 0.0));
            self.weights.push(Weight::constant("clip_high", 6.0));
        }
        Image {
            name,
            ..from.clone()
        }
    }

    pub(super) fn add(&mut self, left: &Image, right: &Image) -> Image {
        Image {
            name: self.node("Add", &[&left.name, &right.name], Vec::new()),
            ..left.clone()
        }
    }

    /// A product with a square matrix as wide as the rows, and a bias.
    pub(super) fn matmul(&mut self, from: &str, width: u64) -> String {
        let weight = self.weight(vec![width, width], Fill::he(width, 1.0));
        let bias = self.weight(vec![width], Fill::BIAS);
        self.add_macs(&[width, width]);
        let product = self.node("MatMul", &[from, &weight], Vec::new());
        self.node("Add", &[&product, &bias], Vec::new())
    }

    /// Average over the image, then a fully connected layer to the outputs.
    pub(super) fn classify(&mut self, from: &Image) {
        let pooled = self.node("GlobalAveragePool", &[&from.name], Vec::new());
        let flat = self.node("Flatten", &[&pooled], vec![int("axis", 1)]);
        let weight = self.weight(vec![OUTPUTS, from.channels], Fill::he(from.channels, 1.0));
        let bias = self.weight(vec![OUTPUTS], Fill::BIAS);
        self.node("Gemm", &[&flat, &weight, &bias], vec![int("transB", 1)]);
        self.add_macs(&[OUTPUTS, from.channels]);
        self.finish();
    }

    /// The value of the last node is the output.
    pub(super) fn finish(&mut self) {
        if let Some(node) = self.nodes.last_mut() {
            node.output = vec![OUTPUT.into()];
        }
    }

    fn add_macs(&mut self, factors: &[u64]) {
        let factors = factors.iter().map(|&factor| u128::from(factor));
        self.macs += u128::from(self.batch) * factors.product::<u128>();
    }

    fn weight(&mut self, dims: Vec<u64>, fill: Fill) -> String {
        let name = format!("w{}", self.weights.len());
        self.weights.push(Weight {
            name: name.clone(),
            dims,
            fill,
        });
        name
    }

    fn node(&mut self, op: &str, input: &[&str], attribute: Vec<AttributeProto>) -> String {
        let name = format!("{}_{}", op.to_lowercase(), self.nodes.len());
        self.nodes.push(NodeProto {
            input: input.iter().map(|&name| name.to_owned()).collect(),
            output: vec![name.clone()],
            name: name.clone(),
            op_type: op.to_owned(),
            attribute,
            ..NodeProto::default()
        });
        name
    }
}

fn int(name: &str, value: u64) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        i: Some(value.cast_signed()),
        kind: AttributeKind::Int.into(),
        ..AttributeProto::default()
    }
}

fn ints(name: &str, values: &[u64]) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        ints: values.iter().map(|value| value.cast_signed()).collect(),
        kind: AttributeKind::Ints.into(),
        ..AttributeProto::default()
    }
}

fn fixed(size: u64) -> Dimension {
    Dimension {
        value: Some(DimensionValue::Value(size.cast_signed())),
        ..Dimension::default()
    }
}

fn named(plan: &Plan, name: &str, size: u64) -> Dimension {
    if plan.dynamic {
        Dimension {
            value: Some(DimensionValue::Param(name.to_owned())),
            ..Dimension::default()
        }
    } else {
        fixed(size)
    }
}

fn value(name: &str, dim: Vec<Dimension>) -> ValueInfoProto {
    let tensor = TensorType {
        elem_type: ElementType::F32.0,
        shape: Some(TensorShapeProto { dim }),
    };
    ValueInfoProto {
        name: name.to_owned(),
        r#type: Some(TypeProto {
            value: Some(TypeValue::Tensor(tensor)),
            ..TypeProto::default()
        }),
        ..ValueInfoProto::default()
    }
}
