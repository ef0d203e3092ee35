//! Nodes and constants of an ONNX graph, put together one by one. Every value has a name, and no name is given twice.

use std::collections::HashMap;

use super::proto::{
    AttributeProto, Dimension, DimensionValue, GraphProto, NodeProto, TensorProto, TensorShapeProto,
    TensorTypeProto, TypeProto, ValueInfoProto, attribute_type, data_type,
};

/// The name of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Value(pub String);

/// A length along an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Fixed(usize),
    /// Known only in use, by this name.
    Free(&'static str),
}

impl From<usize> for Length {
    fn from(length: usize) -> Self {
        Self::Fixed(length)
    }
}

/// A setting of a node.
pub(super) enum Attribute {
    Float(f32),
    Int(i64),
    Ints(Vec<i64>),
    Text(&'static str),
    Graph(GraphProto),
}

#[derive(Default)]
pub(super) struct Builder {
    graph: GraphProto,
    /// How often each name was asked for.
    names: HashMap<String, usize>,
    /// Lists of integers that are there already.
    ints: HashMap<Vec<i64>, Value>,
    /// Numbers that are there already, by their bits.
    scalars: HashMap<u32, Value>,
}

impl Builder {
    pub fn new(name: &str) -> Self {
        let graph = GraphProto { name: Some(name.to_string()), ..GraphProto::default() };
        Self { graph, ..Self::default() }
    }

    pub fn finish(self) -> GraphProto {
        self.graph
    }

    /// A name like this one that nobody has.
    fn fresh(&mut self, name: &str) -> String {
        let count = self.names.entry(name.to_string()).or_insert(0);
        *count += 1;
        match *count {
            1 => name.to_string(),
            count => {
                let again = format!("{name}.{count}");
                self.fresh(&again)
            }
        }
    }

    pub fn input(&mut self, name: &str, element: i32, shape: &[Length], doc: &str) -> Value {
        let name = self.fresh(name);
        self.graph.input.push(value_info(&name, element, shape, doc));
        Value(name)
    }

    /// Makes a value an output under this name, which must be free.
    pub fn output(&mut self, name: &str, value: &Value, element: i32, shape: &[Length], doc: &str) {
        let own = self.fresh(name);
        debug_assert_eq!(own, name, "an output has the name that is promised");
        self.push("Identity", own.clone(), own.clone(), vec![value.0.clone()], Vec::new());
        self.graph.output.push(value_info(&own, element, shape, doc));
    }

    /// A node with one output, which has the node's name.
    pub fn node(
        &mut self,
        op: &str,
        name: &str,
        inputs: &[&Value],
        attributes: Vec<(&str, Attribute)>,
    ) -> Value {
        let name = self.fresh(name);
        let inputs = inputs.iter().map(|input| input.0.clone()).collect();
        self.push(op, name.clone(), name.clone(), inputs, attributes);
        Value(name)
    }

    fn push(
        &mut self,
        op: &str,
        name: String,
        output: String,
        input: Vec<String>,
        attributes: Vec<(&str, Attribute)>,
    ) {
        self.graph.node.push(NodeProto {
            input,
            output: vec![output],
            name: Some(name),
            op_type: Some(op.to_string()),
            attribute: attributes.into_iter().map(|(name, value)| attribute(name, value)).collect(),
        });
    }

    /// A constant of floats.
    pub fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) -> Value {
        debug_assert_eq!(shape.iter().product::<usize>(), values.len());
        let dims = shape.iter().map(|&side| side as i64).collect();
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(name, data_type::FLOAT, dims, bytes)
    }

    /// One float, the same for all who ask for it.
    pub fn scalar(&mut self, value: f32) -> Value {
        if let Some(known) = self.scalars.get(&value.to_bits()) {
            return known.clone();
        }
        let bytes = value.to_le_bytes().to_vec();
        let constant = self.constant(&format!("value_{value:e}"), data_type::FLOAT, Vec::new(), bytes);
        self.scalars.insert(value.to_bits(), constant.clone());
        constant
    }

    /// A list of integers, the same for all who ask for it.
    pub fn ints(&mut self, values: &[i64]) -> Value {
        if let Some(known) = self.ints.get(values) {
            return known.clone();
        }
        let words: Vec<String> = values.iter().map(i64::to_string).collect();
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let name = format!("list_{}", words.join("_"));
        let constant = self.constant(&name, data_type::INT64, vec![values.len() as i64], bytes);
        self.ints.insert(values.to_vec(), constant.clone());
        constant
    }

    pub fn constant(&mut self, name: &str, element: i32, dims: Vec<i64>, bytes: Vec<u8>) -> Value {
        let name = self.fresh(name);
        self.graph.initializer.push(TensorProto {
            dims,
            data_type: Some(element),
            name: Some(name.clone()),
            raw_data: Some(bytes),
        });
        Value(name)
    }
}

fn value_info(name: &str, element: i32, shape: &[Length], doc: &str) -> ValueInfoProto {
    let dimension = |length: &Length| Dimension {
        value: Some(match length {
            Length::Fixed(length) => DimensionValue::Value(*length as i64),
            Length::Free(name) => DimensionValue::Param((*name).to_string()),
        }),
    };
    let shape = TensorShapeProto { dim: shape.iter().map(dimension).collect() };
    let tensor_type = TensorTypeProto { elem_type: Some(element), shape: Some(shape) };
    ValueInfoProto {
        name: Some(name.to_string()),
        r#type: Some(TypeProto { tensor_type: Some(tensor_type) }),
        doc_string: (!doc.is_empty()).then(|| doc.to_string()),
    }
}

fn attribute(name: &str, value: Attribute) -> AttributeProto {
    let named = AttributeProto { name: Some(name.to_string()), ..AttributeProto::default() };
    match value {
        Attribute::Float(f) => AttributeProto { f: Some(f), r#type: Some(attribute_type::FLOAT), ..named },
        Attribute::Int(i) => AttributeProto { i: Some(i), r#type: Some(attribute_type::INT), ..named },
        Attribute::Ints(ints) => AttributeProto { ints, r#type: Some(attribute_type::INTS), ..named },
        Attribute::Text(text) => AttributeProto {
            s: Some(text.as_bytes().to_vec()),
            r#type: Some(attribute_type::STRING),
            ..named
        },
        Attribute::Graph(graph) => {
            AttributeProto { g: Some(graph), r#type: Some(attribute_type::GRAPH), ..named }
        }
    }
}
