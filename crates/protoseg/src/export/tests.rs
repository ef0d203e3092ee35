//! Files, read back: what a runtime would find in them. What runtimes make of them is compared by
//! `benches/peers/export_parity.py`.

use std::collections::HashSet;

use prost::Message;
use protoseg_core::{Classes, Fit, Preprocess};

use super::{proto::GraphProto, sample::Sample, *};
use crate::{
    config::NetworkConfig,
    decoder::DecoderKind,
    device::cpu,
    encoder::{EncoderConfig, Positions, ResNetConfig, VitConfig},
    method::{
        Method,
        canet::Canet,
        capl::{Ablation, Capl, Preset},
        hsnet::Hsnet,
        pfenet::Pfenet,
        prototypes::Prototypes,
        scl::{Base, Scl},
    },
    model::{Manifest, Training},
};

const SIZE: usize = 65;

fn tiny(decoder: DecoderKind, ablation: Ablation) -> Model {
    let device = cpu();
    device.seed(11);
    let encoder = EncoderConfig::ResNet(ResNetConfig { width: 0.125, ..ResNetConfig::new(10) });
    let classes = Classes::new(&["background", "cow", "lion's mane"], &[]).unwrap();
    let capl = Capl::new(ablation, Preset::Reference.options(), classes.n_base(), true);
    let manifest = Manifest {
        format: Manifest::FORMAT,
        network: NetworkConfig { encoder, decoder, dim: 16, ..NetworkConfig::pspnet(10) },
        classes,
        method: Method::Capl(capl),
        preprocess: Preprocess::imagenet(SIZE),
        training: Training::default(),
    };
    Model::random(manifest, &device).unwrap()
}

fn export(model: &Model, classes: ClassesAs) -> (OnnxFile, ModelProto) {
    let segmenter = Segmenter::builder(model).build().unwrap();
    let file = Export::new(&segmenter).classes(classes).build().unwrap();
    let read = ModelProto::decode(&file.bytes()[..]).unwrap();
    (file, read)
}

/// Every value is there before it is read, every name is given once, and constants have as many bytes as their shape says.
fn assert_sound(graph: &GraphProto, outside: &HashSet<String>) {
    let mut known = outside.clone();
    let own = graph.input.iter().map(|input| input.name().to_string());
    let constants = graph.initializer.iter().map(|tensor| tensor.name().to_string());
    for name in own.chain(constants) {
        assert!(known.insert(name.clone()), "{name} is there twice");
    }
    for tensor in &graph.initializer {
        let bytes = match tensor.data_type() {
            data_type::FLOAT => 4,
            data_type::INT64 => 8,
            data_type::BOOL => 1,
            other => panic!("{} is of type {other}", tensor.name()),
        };
        let count: i64 = tensor.dims.iter().product();
        assert_eq!(tensor.raw_data().len() as i64, bytes * count, "{}", tensor.name());
    }
    for node in &graph.node {
        for input in node.input.iter().filter(|input| !input.is_empty()) {
            assert!(known.contains(input), "{} reads {input} before it is there", node.name());
        }
        for body in node.attribute.iter().filter_map(|attribute| attribute.g.as_ref()) {
            assert_sound(body, &known);
        }
        for output in &node.output {
            assert!(known.insert(output.clone()), "{output} is there twice");
        }
    }
    for output in &graph.output {
        assert!(known.contains(output.name()), "{} is missing", output.name());
    }
}

fn count(graph: &GraphProto, op: &str) -> usize {
    graph.node.iter().filter(|node| node.op_type() == op).count()
}

fn shape(port: &Port) -> String {
    format!("{} {} {}", port.name, port.element, port.shape.join(" "))
}

fn shapes(ports: &[Port]) -> Vec<String> {
    ports.iter().map(shape).collect()
}

#[test]
fn a_file_has_the_promised_inputs_outputs_and_versions() {
    let (file, read) = export(&tiny(DecoderKind::PspNet, Ablation::Capl), ClassesAs::Baked);
    assert_eq!((read.ir_version(), read.opset_import[0].version()), (8, 17));
    assert_eq!(shapes(&file.inputs()), ["image uint8 batch 65 65 3"]);
    assert_eq!(shapes(&file.outputs()), ["labels int32 batch 65 65", "scores float32 batch 3 65 65"]);
    assert!(file.rows().is_empty());
    let graph = read.graph.unwrap();
    assert_sound(&graph, &HashSet::new());
    // 9 x 9 positions can be divided by 3 but not by 2 and 6.
    assert_eq!((count(&graph, "GlobalAveragePool"), count(&graph, "AveragePool")), (1, 1));
    assert_eq!(graph.node.iter().filter(|node| node.name().contains("pool6")).count(), 2);
    // DQCE: attention over positions.
    assert_eq!(count(&graph, "Softmax"), 1);
    assert_eq!(count(&graph, "BatchNormalization"), 0);
}

#[test]
fn every_head_and_use_of_capl_makes_a_sound_graph() {
    let decoders = [
        DecoderKind::PspNet,
        DecoderKind::PspBottleneck,
        DecoderKind::DeepLabV3,
        DecoderKind::Fcn,
        DecoderKind::Project,
    ];
    for decoder in decoders {
        for ablation in [Ablation::Baseline, Ablation::Capl] {
            let model = tiny(decoder, ablation);
            for classes in ClassesAs::ALL {
                let (file, read) = export(&model, classes);
                assert_sound(&read.graph.unwrap(), &HashSet::new());
                assert_eq!(file.inputs().len(), if classes == ClassesAs::Input { 2 } else { 1 });
            }
        }
    }
}

#[test]
fn classes_as_an_input_come_with_the_rows_to_begin_with() {
    let (file, _) = export(&tiny(DecoderKind::Fcn, Ablation::Capl), ClassesAs::Input);
    assert_eq!(shapes(&file.inputs())[1], "prototypes float32 classes 16");
    assert_eq!(shapes(&file.outputs())[2], "features float32 batch 16 9 9");
    let [(name, rows)] = file.rows() else { panic!("one input beside the image") };
    assert_eq!((name.as_str(), rows.shape().as_slice()), ("prototypes", &[3, 16][..]));
}

#[test]
fn the_metadata_says_how_pictures_reach_the_canvas() {
    let (file, _) = export(&tiny(DecoderKind::Fcn, Ablation::Baseline), ClassesAs::Baked);
    let metadata: HashMap<&str, &str> = file.metadata().collect();
    assert_eq!(metadata["names"], r#"{0: 'background', 1: 'cow', 2: "lion's mane"}"#);
    assert_eq!((metadata["imgsz"], metadata["stride"], metadata["task"]), ("[65, 65]", "8", "segment"));
    let own: serde_json::Value = serde_json::from_str(metadata["protoseg"]).unwrap();
    assert_eq!(own["schema"], "protoseg.onnx/1");
    assert_eq!(own["canvas"]["fit"], "letterbox");
    assert_eq!((&own["canvas"]["multiple"], &own["n_base"]), (&8.into(), &3.into()));
    assert_eq!(own["classes"][2]["name"], "lion's mane");
}

#[test]
fn a_canvas_of_the_shape_of_the_picture_is_free_in_the_file() {
    let model = Model::builtin();
    let (file, read) = export(&model, ClassesAs::Baked);
    assert_eq!(shapes(&file.inputs()), ["image uint8 batch height width 3"]);
    assert_eq!(shapes(&file.outputs())[1], "scores float32 batch 1 height width");
    assert_sound(&read.graph.unwrap(), &HashSet::new());
    // Rows of a class are many: whose each is is an input too.
    let (file, read) = export(&model, ClassesAs::Input);
    assert_eq!(shapes(&file.inputs())[1..], ["prototypes float32 rows 472", "owners int64 rows"]);
    let graph = read.graph.unwrap();
    assert_sound(&graph, &HashSet::new());
    assert_eq!(count(&graph, "Loop"), 1);
}

#[test]
fn vision_transformers_compute_their_positions_where_the_canvas_is_free() {
    let learned = VitConfig {
        width: 64,
        depth: 4,
        patch: 14,
        registers: 0,
        positions: Positions::Learned(5),
        gated: false,
    };
    let registers = VitConfig { registers: 4, ..learned.clone() };
    let rotary = VitConfig { positions: Positions::Rotary, gated: true, ..registers.clone() };
    for (config, op) in [(learned, "Resize"), (registers, "Range"), (rotary, "Cos")] {
        let encoder = EncoderConfig::Vit(config);
        let manifest = Manifest {
            format: Manifest::FORMAT,
            preprocess: Preprocess { fit: Fit::Tight, ..encoder.preprocess(112) },
            network: NetworkConfig::stages(encoder),
            classes: Classes::new(&["background"], &[]).unwrap(),
            method: Method::Prototypes(Prototypes::taught(1)),
            training: Training::default(),
        };
        let (file, read) = export(&Model::random(manifest, &cpu()).unwrap(), ClassesAs::Baked);
        assert_eq!(shapes(&file.inputs()), ["image uint8 batch height width 3"]);
        let graph = read.graph.unwrap();
        assert_sound(&graph, &HashSet::new());
        assert!(count(&graph, op) > 0, "{op}");
        assert_eq!(count(&graph, "Softmax"), 4, "attention of every block");
    }
}

#[test]
fn whitened_rows_a_head_and_the_image_prior_are_in_the_graph() {
    let model = Model::builtin_scenes();
    for classes in ClassesAs::ALL {
        let (file, read) = export(&model, classes);
        let graph = read.graph.unwrap();
        assert_sound(&graph, &HashSet::new());
        assert_eq!(count(&graph, "Log"), 1, "the image prior");
        assert!(graph.node.iter().any(|node| node.name() == "whitening"));
        assert!(graph.node.iter().any(|node| node.name() == "head.out"));
        let n_inputs = if classes == ClassesAs::Input { 4 } else { 1 };
        assert_eq!(file.inputs().len(), n_inputs);
        assert_eq!(file.rows().len(), n_inputs - 1);
    }
}

/// A few-shot system on a tiny ResNet.
fn few_shot(method: Method) -> Model {
    let device = cpu();
    device.seed(11);
    let resnet = ResNetConfig { width: 0.125, ..ResNetConfig::new(10) };
    let manifest = Manifest {
        format: Manifest::FORMAT,
        network: method.published_network(EncoderConfig::ResNet(resnet)),
        classes: Classes::new(&["background"], &[]).unwrap(),
        method,
        preprocess: Preprocess::imagenet(SIZE),
        training: Training::default(),
    };
    Model::random(manifest, &device).unwrap()
}

#[test]
fn few_shot_systems_take_supports_and_share_weights_between_passes() {
    let canet = |iterations| {
        let method = Method::Canet(Canet { iterations, ..Canet::default() });
        export_few_shot(&few_shot(method)).unwrap()
    };
    let pfenet = |prior| {
        let method = Method::Pfenet(Pfenet { prior, ..Pfenet::default() });
        export_few_shot(&few_shot(method)).unwrap()
    };
    let scl = |on| export_few_shot(&few_shot(Method::Scl(Scl::new(on)))).unwrap();
    let hsnet = export_few_shot(&few_shot(Method::Hsnet(Hsnet::default()))).unwrap();
    for file in [canet(1), canet(5), pfenet(true), pfenet(false), scl(Base::Pfenet), scl(Base::Canet), hsnet]
    {
        let expected = [
            "image uint8 batch 65 65 3",
            "support_images uint8 shots 65 65 3",
            "support_masks uint8 shots 65 65",
        ];
        assert_eq!(shapes(&file.inputs()), expected);
        assert_eq!(shapes(&file.outputs()), ["labels int32 batch 65 65", "scores float32 batch 2 65 65"]);
        let graph = ModelProto::decode(&file.bytes()[..]).unwrap().graph.unwrap();
        assert_sound(&graph, &HashSet::new());
    }
    let softmaxes =
        |file: &OnnxFile| count(&ModelProto::decode(&file.bytes()[..]).unwrap().graph.unwrap(), "Softmax");
    assert_eq!(
        (softmaxes(&canet(1)), softmaxes(&canet(5))),
        (0, 4),
        "the history of every pass but the first"
    );
    let several = Scl { scales: vec![0.7, 1.0], ..Scl::new(Base::Canet) };
    let refused = export_few_shot(&few_shot(Method::Scl(several))).unwrap_err();
    assert!(matches!(refused, ExportError::Scales), "{refused}");
    let (one, five) = (canet(1).bytes().len(), canet(5).bytes().len());
    assert!(five < one + one / 10, "{one} and {five} bytes");
}

#[test]
fn a_pyramid_on_a_canvas_of_any_shape_is_refused() {
    let model = tiny(DecoderKind::PspNet, Ablation::Baseline).with_fit(Fit::Tight);
    let segmenter = Segmenter::builder(&model).build().unwrap();
    let error = Export::new(&segmenter).build().unwrap_err();
    assert!(matches!(&error, ExportError::FreeCanvas { layer } if layer.contains("pool2")), "{error}");
}

#[test]
fn the_same_model_gives_the_same_bytes() {
    let model = tiny(DecoderKind::PspNet, Ablation::Capl);
    let bytes = || export(&model, ClassesAs::Baked).0.bytes();
    assert_eq!(bytes(), bytes());
}

#[test]
fn a_sample_agrees_with_itself_and_tells_ties_from_errors() {
    let model = tiny(DecoderKind::Fcn, Ablation::Baseline);
    let sample = Sample::new(&Segmenter::builder(&model).build().unwrap()).unwrap();
    let labels: Vec<i32> = sample.labels.iter().map(|&label| i32::from(label)).collect();
    let same = sample.compare(&labels, &sample.scores);
    assert!(same.is_same() && same.different == 0, "{same:?}");
    let other: Vec<i32> = labels.iter().map(|label| (label + 1) % 3).collect();
    assert!(!sample.compare(&other, &sample.scores).is_same());
    let mut broken = sample.scores.clone();
    broken[7] = f32::NAN;
    assert!(!sample.compare(&labels, &broken).is_same());
    let pixels = sample.height * sample.width;
    let highest = |pixel: usize| sample.scores[usize::from(sample.labels[pixel]) * pixels + pixel];
    assert!(
        (0..pixels).all(|pixel| (0..3).all(|class| sample.scores[class * pixels + pixel] <= highest(pixel)))
    );
}
