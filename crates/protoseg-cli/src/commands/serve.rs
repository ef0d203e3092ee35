//! `protoseg serve`.

use anyhow::Result;
use protoseg_server::{ServeOptions, Server, ServerError};

use super::{
    studio::{options, serve},
    usage::load_model,
};
use crate::{cli::Serve, output};

/// The port that is tried first.
const PORT: u16 = 8379;

pub fn run(args: &Serve) -> Result<()> {
    let model = load_model(args.model.as_deref(), &args.device)?;
    let mut desk = ServeOptions::new(&args.packs);
    desk.pack.clone_from(&args.pack);
    desk.images.clone_from(&args.images);
    if let Some(path) = &args.model {
        desk.model_name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    }
    let open = |port: u16| {
        let mut options = options(&args.listen, port);
        options.without_token = args.no_token;
        Server::serve(model.clone(), &desk, &options)
    };
    let server = match (open(args.listen.port.unwrap_or(PORT)), args.listen.port) {
        (Err(ServerError::Listen { .. }), None) => open(0)?,
        (server, _) => server?,
    };
    output::line(server.url())?;
    if let Some(token) = server.token() {
        output::note(format_args!("requests show the token: Authorization: Bearer {token}"));
    }
    output::note("the API is described at /docs; press Ctrl-C to stop");
    serve(server)
}
