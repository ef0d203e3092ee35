//! Hints about library errors, in terms of the command line. The library's errors name no flags and no commands; these
//! hints do.

use protoseg::{
    class_pack::PackError, core::EpisodeError, core::SupportError, data::DataError, episodes::EpisodesError,
    evaluate::EvaluateError, experiment::ExperimentError, from_encoder::FromEncoderError, model::ModelError,
    register::RegisterError, train::TrainError,
};

use protoseg_server::ServerError;

use crate::output::quoted;

/// The hint for an error, if there is one.
pub fn of(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| {
        let cause_of_register = cause.downcast_ref().and_then(of_register);
        cause_of_register
            .or_else(|| cause.downcast_ref().and_then(of_from_encoder))
            .or_else(|| cause.downcast_ref().and_then(of_train))
            .or_else(|| cause.downcast_ref().and_then(of_evaluate))
            .or_else(|| cause.downcast_ref().and_then(of_episodes))
            .or_else(|| cause.downcast_ref().and_then(of_experiment))
            .or_else(|| cause.downcast_ref().and_then(of_server))
            .or_else(|| cause.downcast_ref().and_then(of_model))
            .or_else(|| cause.downcast_ref().and_then(of_pack))
            .or_else(|| cause.downcast_ref().and_then(of_data))
    })
}

fn of_register(error: &RegisterError) -> Option<String> {
    match error {
        RegisterError::Pack(PackError::Twice(_)) => {
            Some("use --add to give it more supports, --force to replace it, or another name".to_string())
        }
        RegisterError::Pack(error) => of_pack(error),
        RegisterError::Data(error) => of_data(error),
        RegisterError::Model(error) => of_model(error),
        RegisterError::Known { .. } => {
            Some("choose another name, or refine the model's class with --refine".to_string())
        }
        RegisterError::GivenTwice { .. } => {
            Some("list all supports of a class in one --class, or in one file".to_string())
        }
        _ => None,
    }
}

fn of_from_encoder(error: &FromEncoderError) -> Option<String> {
    match error {
        FromEncoderError::NoPixels { .. } => {
            Some("--novel-pixels ignore keeps images that show novel classes too".to_string())
        }
        FromEncoderError::Data(error) => of_data(error),
        FromEncoderError::Model(error) => of_model(error),
        _ => None,
    }
}

fn of_server(error: &ServerError) -> Option<String> {
    match error {
        ServerError::Exposed { .. } => {
            Some("say --allow-host NAME for each name that it is called by, and keep its token".to_string())
        }
        ServerError::WeakToken { .. } => Some("leave --token out to get a random one".to_string()),
        ServerError::Listen { .. } => Some("choose another --port, or 0 for any free one".to_string()),
        _ => None,
    }
}

fn of_train(error: &TrainError) -> Option<String> {
    match error {
        TrainError::Exists { path } => {
            Some(format!("continue it with --resume {}, or choose another --out", quoted(path)))
        }
        TrainError::OtherEncoder { arch, expected, .. } => {
            Some(format!("train with --arch {arch}, or give weights of `{expected}`"))
        }
        TrainError::NoRun { .. } => Some("give --resume the folder that --out named".to_string()),
        TrainError::Diverged { .. } => Some(
            "start again with a smaller --lr, or check these images with `protoseg data check`".to_string(),
        ),
        TrainError::Load(_) => {
            Some("repair or remove the file, or leave such images out with --on-error skip".to_string())
        }
        TrainError::Config(error) if error.key == "data.source" => Some("choose one with --data".to_string()),
        TrainError::Data(error) => of_data(error),
        TrainError::FromEncoder(error) => of_from_encoder(error),
        TrainError::Model(error) => of_model(error),
        _ => None,
    }
}

fn of_evaluate(error: &EvaluateError) -> Option<String> {
    match error {
        EvaluateError::Data(error) => of_data(error),
        EvaluateError::Register(error) => of_register(error),
        EvaluateError::Model(error) => of_model(error),
        EvaluateError::NoImages { .. } => Some("check it with `protoseg data check`".to_string()),
        EvaluateError::NotFed { .. } => Some("`protoseg episodes` evaluates it".to_string()),
        _ => None,
    }
}

fn of_episodes(error: &EpisodesError) -> Option<String> {
    match error {
        EpisodesError::Data(error) => of_data(error),
        EpisodesError::Model(error) => of_model(error),
        _ => None,
    }
}

fn of_experiment(error: &ExperimentError) -> Option<String> {
    match error {
        ExperimentError::Format { reason, .. } if !reason.contains("hint:") => {
            Some("`protoseg experiment heads --print` shows one".to_string())
        }
        ExperimentError::Data(error) => of_data(error),
        ExperimentError::Train(error) => of_train(error),
        ExperimentError::FromEncoder(error) => of_from_encoder(error),
        ExperimentError::Model(error) => of_model(error),
        ExperimentError::Evaluate(error) => of_evaluate(error),
        ExperimentError::Episodes(error) => of_episodes(error),
        _ => None,
    }
}

fn of_model(error: &ModelError) -> Option<String> {
    match error {
        ModelError::NoManifest { .. } => Some(
            "make a model with `protoseg new --encoder`, `protoseg import` or `protoseg train`".to_string(),
        ),
        ModelError::Generalized { .. } => {
            Some("use `protoseg register` and `protoseg predict`; `protoseg eval` evaluates it".to_string())
        }
        ModelError::Episodic { .. } => {
            Some("use `protoseg segment`; `protoseg episodes` evaluates it".to_string())
        }
        _ => None,
    }
}

fn of_pack(error: &PackError) -> Option<String> {
    match error {
        PackError::Format { .. } => Some("make one with `protoseg register`".to_string()),
        PackError::Twice(_) => {
            Some("remove it first with `protoseg classes remove`, or choose another name".to_string())
        }
        PackError::BaseName { .. } => {
            Some("choose another name; `protoseg info` lists the model's classes".to_string())
        }
        _ => None,
    }
}

fn of_data(error: &DataError) -> Option<String> {
    match error {
        DataError::NeedsRoot { .. } => Some("give it with --root".to_string()),
        DataError::AlreadyPrepared { .. } => Some("use --force to prepare it again here".to_string()),
        DataError::Support(SupportError::None { .. }) => Some(
            "`protoseg register` and `protoseg eval` take a smaller --min-pixels, or a list with --supports"
                .to_string(),
        ),
        DataError::Episode(EpisodeError::TooFewImages { .. }) => {
            Some("`protoseg episodes` takes fewer --shots, or a smaller --min-pixels".to_string())
        }
        DataError::Missing { path, .. } if path.ends_with("SegmentationClassAug") => {
            Some("run `protoseg data prepare pascal-5i --voc DIR --sbd DIR`".to_string())
        }
        _ => None,
    }
}
