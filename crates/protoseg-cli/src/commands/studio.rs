//! `protoseg studio`.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};
use protoseg_server::{Server, ServerError, ServerOptions, StudioOptions};

use super::usage::{load_model, model_flag};
use crate::{
    cli::{Listen, Studio},
    output::{self, stop::Stop},
};

/// The port that is tried first, so that a bookmark stays right.
const PORT: u16 = 8378;

pub fn run(args: &Studio) -> Result<()> {
    if !args.folder.is_dir() {
        bail!("`{}` is not a folder\nhint: give the folder with your photos", args.folder.display());
    }
    let model = load_model(args.model.as_deref(), &args.device)?;
    let mut studio = StudioOptions::new(&args.folder);
    if let Some(project) = &args.project {
        studio.project.clone_from(project);
    }
    if let Some(path) = &args.model {
        studio.model_name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        studio.model_flag = model_flag(Some(path));
    }
    if let Some(megabytes) = args.memory {
        studio.memory = (megabytes as usize) << 20;
    }
    let open = |port: u16| Server::studio(model.clone(), studio.clone(), &options(&args.listen, port));
    let server = match (open(args.listen.port.unwrap_or(PORT)), args.listen.port) {
        // Another studio has the usual port; any other will do.
        (Err(ServerError::Listen { .. }), None) => open(0)?,
        (server, _) => server?,
    };
    let url = server.url();
    output::line(&url)?;
    output::note("the studio is open; press Ctrl-C to close it");
    if !args.no_open {
        open_browser(&url);
    }
    serve(server)
}

/// The server's options from flags.
pub fn options(listen: &Listen, port: u16) -> ServerOptions {
    let mut options = ServerOptions::default();
    options.address = listen.address;
    options.port = port;
    options.token.clone_from(&listen.token);
    options.hosts.clone_from(&listen.allow_host);
    options
}

/// Answers until Ctrl-C.
pub fn serve(server: Server) -> Result<()> {
    let stop =
        Stop::on_ctrl_c(|_| output::note("requests in work finish; press Ctrl-C again to quit at once"))?;
    server.run(move || stop.asked())?;
    Ok(())
}

/// Opens the browser. Where there is none, the printed address is enough.
fn open_browser(url: &str) {
    let (program, args): (&str, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        "windows" => ("rundll32", &["url.dll,FileProtocolHandler"]),
        _ => ("xdg-open", &[]),
    };
    let quiet = Stdio::null;
    let _ = Command::new(program).args(args).arg(url).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn();
}
