//! The events of a run that never was, for tests of what records it here and of what shows it in the cli.

use protoseg::train::{End, EpochEvent, Event, Start, StepEvent, Validation};

/// All events of a run, in order. Its losses fall and shake as losses do.
pub fn events(epochs: usize, steps_per_epoch: usize) -> Vec<Event> {
    let steps = epochs * steps_per_epoch;
    let mut events = vec![Event::Start(Start {
        schema: "protoseg.train/1".into(),
        data: "scenes".into(),
        fold: 0,
        method: "capl".into(),
        network: "ResNet-50, PPM, 512 features".into(),
        device: "cpu".into(),
        seed: 123,
        images: 8 * steps_per_epoch,
        epochs,
        steps_per_epoch,
        steps,
        from_step: 0,
        task: None,
        shots: None,
    })];
    let mut best = 0.0;
    for epoch in 1..=epochs {
        let of_epoch: Vec<StepEvent> = (1..=steps_per_epoch)
            .map(|at| step_of((epoch - 1) * steps_per_epoch + at, epoch, steps_per_epoch, steps))
            .collect();
        let loss = of_epoch.iter().map(|step| f64::from(step.loss)).sum::<f64>() / of_epoch.len() as f64;
        let loss = rounded(loss);
        events.extend(of_epoch.into_iter().map(Event::Step));
        let step = epoch * steps_per_epoch;
        events.push(Event::Epoch(EpochEvent {
            epoch,
            step,
            loss,
            main_loss: rounded(0.8 * loss),
            aux_loss: Some(rounded(0.5 * loss)),
            seconds: 75.0,
            images_per_second: 11.4,
        }));
        let progress = epoch as f64 / epochs as f64;
        let base_miou = rounded(68.0 * (1.0 - (-4.0 * progress).exp()) + 2.5 * shake(step));
        events.push(Event::Validation(Validation {
            epoch,
            step,
            on: "holdout".into(),
            images: 120,
            base_miou,
            pixel_accuracy: rounded(60.0 + base_miou / 2.0),
            iou: vec![("cow".into(), Some(rounded(base_miou + 3.0))), ("boat".into(), None)],
            best: base_miou > best,
        }));
        best = base_miou.max(best);
        events.push(Event::Checkpoint { step, path: "runs/scenes/last.safetensors".into() });
    }
    events.push(Event::End(End {
        step: steps,
        seconds: 75.0 * epochs as f64,
        peak_memory: Some(3 << 30),
        last: "runs/scenes/last.safetensors".into(),
        best: "runs/scenes/best.safetensors".into(),
    }));
    events
}

fn step_of(step: usize, epoch: usize, steps_per_epoch: usize, steps: usize) -> StepEvent {
    let epochs_done = step as f64 / steps_per_epoch as f64;
    let loss = 0.35 + 2.2 / (1.0 + 1.5 * epochs_done) * (1.0 + 0.25 * shake(step)) + 0.1 * shake(7 * step);
    StepEvent {
        epoch,
        step,
        loss: loss as f32,
        main_loss: 0.8 * loss as f32,
        aux_loss: Some(0.5 * loss as f32),
        rate: rounded(2.5e-3 * (1.0 - (step - 1) as f64 / steps as f64).powf(0.9)),
        images_per_second: rounded(11.5 + shake(step)),
    }
}

/// Short enough for JSON to bring it back to the last bit.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// From -1 to 1, the same for the same number.
fn shake(number: usize) -> f64 {
    let mixed = (number as u64)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .rotate_left(31)
        .wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}
