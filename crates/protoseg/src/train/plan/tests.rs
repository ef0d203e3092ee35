use std::path::{Path, PathBuf};

use super::*;
use crate::encoder::ResNetConfig;

fn plan(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

fn refusal(text: &str) -> String {
    let (_folder, path) = plan(text);
    match Plan::read(&path) {
        Ok(plan) => plan.check_file(Some(&path)).unwrap_err().to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn an_empty_file_is_the_reference_s_recipe() {
    let (_folder, path) = plan("");
    let plan = Plan::read(&path).unwrap();
    assert_eq!(plan, Plan::default());
    assert_eq!((plan.training.epochs, plan.training.batch, plan.training.crop), (50, 6, 473));
    assert_eq!(plan.optimizer, OptimizerSettings::reference());
    assert_eq!(plan.transforms(&Preprocess::imagenet(473)), Augment::reference(473));
    assert_eq!(plan.resolve_options().unwrap(), Preset::Reference.options());
}

#[test]
fn a_plan_reads_back_as_it_was_written() {
    let mut plan = Plan::default();
    plan.data.source = "scenes".to_string();
    plan.network.set_arch("fcn-vgg16").unwrap();
    plan.options.insert("fusion".to_string(), "unit".into());
    let (_folder, path) = self::plan(&plan.to_toml());
    assert_eq!(Plan::read(&path).unwrap(), plan);
}

#[test]
fn unknown_keys_are_shown_in_their_line() {
    let error = refusal("[training]\nepochs = 3\nbathc = 4\n");
    assert!(error.contains("line 3") && error.contains("bathc"), "{error}");
    let error = refusal("method = \"kapl\"\n");
    assert!(error.contains("kapl") && error.contains("dqce-mlp"), "{error}");
}

#[test]
fn impossible_values_name_their_line_and_what_would_do() {
    let start = "[data]\nsource = \"scenes\"\n";
    let cases = [
        ("[training]\nepochs = 2\nbatch = 1\n", "line 5", "`training.batch` must be"),
        ("[optimizer]\nlr = -0.1\n", "line 4", "`optimizer.lr` must be a number above 0, got `-0.1`"),
        ("[augment]\nscale = [2.0, 0.5]\n", "line 4", "augment.scale"),
        ("[network]\nencoder = \"resnet51\"\n", "line 4", "resnet101"),
        ("[network]\noutput_stride = 12\n", "line 4", "output_stride"),
        ("[options]\nfusion = \"loud\"\n", "line 3", "loud"),
        ("[validation]\nshare = 0.9\n", "line 4", "validation.share"),
    ];
    for (text, line, word) in cases {
        let error = refusal(&format!("{start}{text}"));
        assert!(error.contains(line) && error.contains(word), "{text}: {error}");
    }
}

#[test]
fn a_value_that_no_line_has_is_refused_all_the_same() {
    assert!(refusal("seed = 1\n").contains("data.source"));
}

#[test]
fn options_change_single_rows_of_a_preset() {
    let (_folder, path) =
        plan("preset = \"paper\"\n[options]\nfusion = \"unit\"\n[options.loss]\naux = 0.4\n");
    let options = Plan::read(&path).unwrap().resolve_options().unwrap();
    let mut expected = Preset::Paper.options();
    expected.fusion = crate::method::capl::options::Fusion::Unit;
    expected.loss.aux = 0.4;
    assert_eq!(options, expected);
}

#[test]
fn one_name_sets_encoder_and_decoder() {
    let mut network = NetworkPlan::default();
    let mut set = |arch: &str| network.set_arch(arch).map(|()| (network.decoder, network.encoder.clone()));
    assert_eq!(set("pspnet50").unwrap(), (DecoderKind::PspNet, Some("resnet50".to_string())));
    assert_eq!(
        set("pspnet-bottleneck50").unwrap(),
        (DecoderKind::PspBottleneck, Some("resnet50".to_string()))
    );
    assert_eq!(set("deeplabv3-101").unwrap(), (DecoderKind::DeepLabV3, Some("resnet101".to_string())));
    assert_eq!(set("project-vgg16").unwrap(), (DecoderKind::Project, Some("vgg16".to_string())));
    for arch in ["pspnet", "unet50", "fcn7", "fcn-vgg19"] {
        assert!(set(arch).is_err(), "{arch}");
    }
}

#[test]
fn weights_decide_what_the_plan_leaves_open() {
    let found = EncoderConfig::ResNet(ResNetConfig {
        stem: Stem::Classic,
        stride_on: StrideOn::First1x1,
        ..ResNetConfig::new(50)
    });
    let open = NetworkPlan::default();
    assert_eq!(open.encoder_config(Some(&found)).unwrap(), found);
    let said = NetworkPlan { stem: Some(Stem::Deep), output_stride: Some(16), ..NetworkPlan::default() };
    let EncoderConfig::ResNet(resnet) = said.encoder_config(Some(&found)).unwrap() else { panic!() };
    assert_eq!((resnet.stem, resnet.stride_on, resnet.output_stride), (Stem::Deep, StrideOn::First1x1, 16));
}

#[test]
fn paths_are_beside_the_file() {
    let (folder, path) = plan("[data]\nsource = \"msrc\"\nroot = \"photos\"\n[network]\ninit = \"w.pth\"\n");
    let plan = Plan::read(&path).unwrap();
    assert_eq!(plan.data.root.as_deref(), Some(folder.path().join("photos").as_path()));
    assert_eq!(plan.network.init.as_deref(), Some(folder.path().join("w.pth").as_path()));
    assert_eq!(Path::new(&plan.data.source), Path::new("msrc"));
}

#[test]
fn a_plan_for_episodes_reads_back_and_says_nothing_that_its_system_decides() {
    let text = "task = \"fs-seg\"\nmethod = \"pfenet\"\n[data]\nsource = \"scenes\"\n[training]\nbatch = 1\nshots = 5\n\
        [augment]\nfit = \"squash\"\n[augment.supports]\nflip_p = 1.0\n[options]\nprior = false\n";
    let (_folder, path) = plan(text);
    let read = Plan::read(&path).unwrap();
    read.check().unwrap();
    let written = read.to_toml();
    assert!(!written.contains("decoder") && !written.contains("preset"), "{written}");
    let (_again, path) = plan(&written);
    assert_eq!(Plan::read(&path).unwrap(), read);
    let classes = Classes::new(&["background", "cow"], &["duck"]).unwrap();
    let Method::Pfenet(pfenet) = read.resolve_method(&classes).unwrap() else { panic!() };
    assert!(!pfenet.prior);
    assert_eq!(pfenet.bins, crate::method::fem::BINS);
    assert_eq!(read.cropper(&Preprocess::imagenet(9)).fit, CropFit::Squash);
    assert_eq!(read.support_cropper(&Preprocess::imagenet(9)).augment.flip_p, 1.0);
}

#[test]
fn what_no_system_for_episodes_can_be_is_refused() {
    let start = "task = \"fs-seg\"\nmethod = \"pfenet\"\n[data]\nsource = \"scenes\"\n";
    let cases = [
        ("[training]\nshots = 0\n", "line 6", "training.shots"),
        ("[network]\ndecoder = \"fcn\"\n", "line 6", "left out"),
        ("[network]\nencoder = \"vgg16\"\n", "line 6", "ResNet with four layers"),
        ("[options]\nbinz = 3\n", "line 5", "binz"),
        ("[options]\nname = \"panet\"\n", "line 5", "settings of"),
        ("[optimizer]\nschedule = \"step\"\nmilestones = [0.0]\n", "line 7", "milestones"),
        ("[augment.supports]\nscale = [3.0, 1.0]\n", "line 6", "augment.supports.scale"),
    ];
    for (text, line, word) in cases {
        let error = refusal(&format!("{start}{text}"));
        assert!(error.contains(line) && error.contains(word), "{text}: {error}");
    }
    let error = refusal("task = \"fs-seg\"\n[data]\nsource = \"scenes\"\n");
    assert!(error.contains("`method` must be one of panet") && error.contains("got `capl`"), "{error}");
    let error = refusal("method = \"hsnet\"\n[data]\nsource = \"scenes\"\n");
    assert!(error.contains("line 1") && error.contains("`task` be `fs-seg`"), "{error}");
}

#[test]
fn crops_of_vision_transformers_are_whole_patches() {
    let text = |crop| {
        format!(
            "[data]\nsource = \"scenes\"\n[network]\nencoder = \"dinov2-small\"\n[training]\ncrop = {crop}\n"
        )
    };
    let error = refusal(&text(473));
    assert!(error.contains("line 6") && error.contains("such as 476") && error.contains("473"), "{error}");
    let (_folder, path) = plan(&text(476));
    Plan::read(&path).unwrap().check_file(Some(&path)).unwrap();
}

#[test]
fn a_plan_from_before_episodes_is_written_as_it_was() {
    let written = Plan::default().to_toml();
    for key in
        ["task", "shots", "episodes", "min_pixels", "fit", "flip_vertical_p", "classes", "nesterov", "floor"]
    {
        assert!(!written.lines().any(|line| line.starts_with(&format!("{key} ="))), "{key} in\n{written}");
    }
}
