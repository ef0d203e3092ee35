//! Results made by hand, for tests.

use protoseg_core::{Classes, Confusion, Protocol, Scores};

use super::{Cell, ResultRow, Results, Trust};

/// A row with one draw for each pair of base and novel mIoU. Classes: background, `cow_1` and `duck`, which is absent.
pub(crate) fn row(variant: &'static str, shots: usize, draws: &[[f64; 2]]) -> ResultRow {
    let cell = |(seed, &[base, novel]): (usize, &[f64; 2])| Cell {
        variant,
        preset: "balanced".to_string(),
        shots,
        seed: seed as u64,
        counts: Confusion::new(3),
        scores: Scores {
            base,
            base_with_background: base,
            base_without_background: base,
            novel,
            total: (base + novel) / 2.0,
            mean: (base + novel) / 2.0,
            harmonic_mean: 2.0 * base * novel / (base + novel),
            pixel_accuracy: 90.0,
            iou: vec![Some(80.0), Some(base), None],
        },
        base_before: Some(70.0),
        confidence: Trust::default(),
    };
    ResultRow::new(&draws.iter().enumerate().map(cell).collect::<Vec<_>>())
}

/// The results of a fold with these rows.
pub(crate) fn results(fold: usize, rows: Vec<ResultRow>) -> Results {
    let draws = rows.first().map_or(0, |row| row.runs.len());
    Results {
        schema: "protoseg.eval/1",
        model: format!("fold{fold}.safetensors"),
        fingerprint: "0123456789abcdef".to_string(),
        data: "my_farm".to_string(),
        fold,
        protocol: Protocol::Exact,
        size: 65,
        seconds: 1.0,
        peak_memory: None,
        trained_method: "capl".to_string(),
        trained_variant: Some("capl"),
        architecture: "PSPNet, ResNet-10".to_string(),
        training_seed: Some(3),
        novel_pixels_in_training: None,
        model_chosen_by: None,
        split: "val".to_string(),
        support_split: "train".to_string(),
        images: 9,
        images_in_split: 9,
        second_look: false,
        min_support_pixels: 50,
        seeds: (0..draws as u64).collect(),
        classes: Classes::new(&["background", "cow_1"], &["duck"]).unwrap(),
        rows,
        supports: Vec::new(),
    }
}
