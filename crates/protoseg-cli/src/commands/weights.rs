//! `protoseg weights`.

use anyhow::{Result, bail};
use protoseg::core::count;
use serde_json::{Value, json};

use crate::{
    cli::{Weights, WeightsCommand},
    output::{self, table},
    weights::{self, Downloads, IN_BOX, State, TABLE, by_name},
};

pub fn run(args: &Weights) -> Result<()> {
    match &args.command {
        WeightsCommand::List { json } => list(*json),
        WeightsCommand::Pull { names, force, json } => {
            pull(names, *force, Downloads::new(args.offline), *json)
        }
        WeightsCommand::Path { name, json } => path(name, *json),
        WeightsCommand::Verify { names, json } => verify(names, *json),
    }
}

fn list(as_json: bool) -> Result<()> {
    if as_json {
        return list_json();
    }
    let mut rows = vec![[IN_BOX, "Apache-2.0", "-", "in the box", "-"].map(str::to_string).to_vec()];
    for weights in TABLE {
        let licence = if weights.is_gated { " (needs HF_TOKEN)" } else { "" };
        let place = weights::find(weights)?.map_or("not here".to_string(), |path| path.display().to_string());
        rows.push(vec![
            weights.name.to_string(),
            format!("{}{licence}", weights.licence),
            format!("{} MB", weights.megabytes),
            place,
            weights::publisher(weights),
        ]);
    }
    table::lines(&["name", "licence", "size", "where", "from"], &rows)
        .into_iter()
        .try_for_each(output::line)?;
    output::line("next: protoseg weights pull NAME")
}

fn list_json() -> Result<()> {
    let row = |weights: &weights::Weights| -> Result<Value> {
        let path = weights::find(weights)?.map(|path| path.display().to_string());
        Ok(json!({
            "name": weights.name, "repository": weights.repository(), "file": weights.file,
            "url": weights::address(weights)?, "licence": weights.licence, "source": weights.source,
            "megabytes": weights.megabytes, "sha256": weights.sha256, "is_gated": weights.is_gated,
            "is_in_box": false, "path": path,
        }))
    };
    let mut rows = vec![json!({ "name": IN_BOX, "licence": "Apache-2.0", "is_in_box": true, "path": null })];
    for weights in TABLE {
        rows.push(row(weights)?);
    }
    let cache = weights::cache()?.display().to_string();
    output::json(&json!({ "schema": "protoseg.weights/1", "cache": cache, "weights": rows }))
}

fn pull(names: &[String], force: bool, downloads: Downloads, as_json: bool) -> Result<()> {
    // A name that is wrong is said before anything is downloaded.
    let all = names.iter().map(|name| Ok((name, by_name(name)?))).collect::<Result<Vec<_>>>()?;
    let mut rows = Vec::new();
    for (name, weights) in all {
        let path = match weights {
            None => None,
            Some(weights) if force => match downloads {
                Downloads::Allowed => Some(weights::fetch(weights, true)?),
                Downloads::Forbidden(why) => bail!("`{name}` cannot be downloaded again: {why}"),
            },
            Some(weights) => Some(weights::get(weights, downloads)?),
        };
        let path = path.map(|path| path.display().to_string());
        if !as_json {
            output::line(format_args!("{name} -> {}", path.as_deref().unwrap_or("in the box")))?;
        }
        rows.push(json!({ "name": name, "is_in_box": path.is_none(), "path": path }));
    }
    if as_json { print_json("protoseg.weights-pull/1", &rows) } else { Ok(()) }
}

fn print_json(schema: &str, rows: &[Value]) -> Result<()> {
    output::json(&json!({ "schema": schema, "weights": rows }))
}

fn path(name: &str, as_json: bool) -> Result<()> {
    let Some(weights) = by_name(name)? else {
        bail!("`{name}` has no file: this encoder is part of the program\nhint: use its name alone");
    };
    match weights::find(weights)? {
        Some(path) if as_json => {
            let path = path.display().to_string();
            output::json(&json!({ "schema": "protoseg.weights-path/1", "name": name, "path": path }))
        }
        Some(path) => output::line(path.display()),
        None => {
            let by_hand = weights::by_hand(weights, weights.sha256)?;
            bail!("`{name}` is not here\nhint: run `protoseg weights pull {name}`, or {by_hand}")
        }
    }
}

/// The weights of these names, or without any all that are in our cache.
fn in_cache(names: &[String]) -> Result<Vec<&'static weights::Weights>> {
    let mut chosen = Vec::new();
    for name in names {
        let Some(weights) = by_name(name)? else { continue };
        if !weights::place(weights)?.is_file() {
            let cache = weights::cache()?;
            bail!(
                "`{name}` is not in `{}`\nhint: `protoseg weights list` shows what is where",
                cache.display()
            );
        }
        chosen.push(weights);
    }
    if names.is_empty() {
        for weights in TABLE {
            if weights::place(weights)?.is_file() {
                chosen.push(weights);
            }
        }
    }
    Ok(chosen)
}

fn verify(names: &[String], as_json: bool) -> Result<()> {
    let chosen = in_cache(names)?;
    let (mut damaged, mut rows) = (Vec::new(), Vec::new());
    for weights in &chosen {
        let place = weights::place(weights)?;
        let (state, words) = match weights::verify(weights, &place)? {
            State::Good => ("good", "good".to_string()),
            State::Unknown(sum) => ("unknown", format!("its sha256 is {sum}, and no other is known")),
            State::Damaged(reason) => {
                damaged.push(weights.name);
                ("damaged", format!("damaged: {reason}"))
            }
        };
        if !as_json {
            output::line(format_args!("{}: {words}", weights.name))?;
        }
        let place = place.display().to_string();
        rows.push(json!({ "name": weights.name, "path": place, "state": state, "words": words }));
    }
    if as_json {
        print_json("protoseg.weights-verify/1", &rows)?;
    }
    if !damaged.is_empty() {
        let names = damaged.join(" ");
        let files = count(damaged.len(), "file");
        let are = if damaged.len() == 1 { "is" } else { "are" };
        bail!("{files} of weights {are} damaged\nhint: replace with `protoseg weights pull --force {names}`");
    }
    if as_json { Ok(()) } else { output::line(format_args!("{} checked", count(chosen.len(), "file"))) }
}
