//! A server: an address, rules, and routes, from the start to the end.

use std::{
    io,
    net::{IpAddr, SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use axum::Router;
use protoseg::Model;

use crate::{
    access::{Access, secret},
    api::{self, Desk, PacksError, ServeOptions},
    limits,
    listen::listen,
    site::{Site, guarded},
    studio::{self, ProjectError, Studio, StudioOptions},
};

/// Where a server listens and who may ask.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerOptions {
    /// The address; loopback by default.
    pub address: IpAddr,
    /// The port; 0 for any that is free.
    pub port: u16,
    /// The token; a random one by default.
    pub token: Option<String>,
    /// Whether whoever is on this machine may ask without a token. Not for other addresses.
    pub without_token: bool,
    /// Names that the server may be called by, beside those of loopback.
    pub hosts: Vec<String>,
    /// Time for the head of a request; bodies and answers have three times as much.
    pub patience: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        let address = IpAddr::from([127, 0, 0, 1]);
        let (token, hosts) = (None, Vec::new());
        Self { address, port: 0, token, without_token: false, hosts, patience: limits::HEAD_TIME }
    }
}

/// A server that cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Others would reach it, and nobody said by which name, or without a token.
    #[error("a server on `{address}`, which others can reach, needs {missing}")]
    Exposed {
        /// The address.
        address: IpAddr,
        /// What is missing.
        missing: &'static str,
    },
    /// The token is too short.
    #[error("the token has {got} letters, expected at least 16")]
    WeakToken {
        /// Its length.
        got: usize,
    },
    /// The address is taken, or not this machine's.
    #[error("cannot listen on `{address}`: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The project cannot be opened.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// The packs cannot be opened.
    #[error(transparent)]
    Packs(#[from] PacksError),
    /// The system has no random numbers or no threads to give.
    #[error("cannot start: {0}")]
    System(String),
}

/// A server that listens, but does not answer yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    /// What people call it, with the port.
    called: String,
    token: Option<String>,
    site: Arc<Site>,
    router: Router,
    studio: Option<Arc<Studio>>,
}

impl Server {
    /// The studio on the photos of a folder.
    pub fn studio(model: Model, studio: StudioOptions, options: &ServerOptions) -> Result<Self, ServerError> {
        // After the address is ours: strokes are registered again, which may take a while.
        Self::new(options, |site| {
            let studio = Studio::open(model, studio)?;
            let router = studio::router(Arc::clone(&studio), Arc::clone(site));
            Ok((router, Some(studio)))
        })
    }

    /// The API for programs and annotation tools, without a page.
    pub fn serve(model: Model, serve: &ServeOptions, options: &ServerOptions) -> Result<Self, ServerError> {
        Self::new(options, |site| {
            let desk = Desk::open(model, serve, Arc::clone(site))?;
            Ok((api::router(desk), None))
        })
    }

    fn new(
        options: &ServerOptions,
        routes: impl FnOnce(&Arc<Site>) -> Result<(Router, Option<Arc<Studio>>), ServerError>,
    ) -> Result<Self, ServerError> {
        let ServerOptions { address, port, token, without_token, hosts, patience } = options;
        let exposed = |missing| ServerError::Exposed { address: *address, missing };
        if !address.is_loopback() && hosts.is_empty() {
            return Err(exposed("a name that it is called by"));
        }
        if !address.is_loopback() && *without_token {
            return Err(exposed("a token"));
        }
        let system = |error: getrandom::Error| ServerError::System(error.to_string());
        let token = match (token, without_token) {
            (Some(token), _) if token.len() < 16 => return Err(ServerError::WeakToken { got: token.len() }),
            (Some(token), _) => Some(token.clone()),
            (None, true) => None,
            (None, false) => Some(secret().map_err(system)?),
        };
        let wanted = SocketAddr::new(*address, *port);
        let failed = |source| ServerError::Listen { address: wanted, source };
        let listener = TcpListener::bind(wanted).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let access = Access::new(token.clone(), address.port(), hosts).map_err(system)?;
        let site = Arc::new(Site::new(access, *patience));
        let (router, studio) = routes(&site)?;
        let router = guarded(router, Arc::clone(&site));
        let called = called(address, hosts);
        Ok(Self { listener, address, called, token, router, site, studio })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address to open, with the token.
    pub fn url(&self) -> String {
        match &self.token {
            Some(token) => format!("http://{}/?token={token}", self.called),
            None => format!("http://{}/", self.called),
        }
    }

    /// The token, if it needs one.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Answers until `is_stopped`. Requests that are in work then finish.
    pub fn run(self, is_stopped: impl Fn() -> bool + Send + 'static) -> Result<(), ServerError> {
        let system = |error: io::Error| ServerError::System(error.to_string());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(64)
            .enable_all()
            .build()
            .map_err(system)?;
        let background = self.studio.as_ref().map(Studio::begin);
        let Self { listener, router, studio, site, .. } = self;
        let stop = {
            let studio = studio.clone();
            async move {
                let mut ticks = 0u32;
                while !is_stopped() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    ticks = ticks.wrapping_add(1);
                    if ticks.is_multiple_of(200)
                        && let Some(studio) = &studio
                    {
                        studio.events.beat();
                    }
                }
                // Answers that never end would keep it from stopping.
                if let Some(studio) = &studio {
                    studio.events.end();
                }
            }
        };
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).map_err(system)?;
            listen(listener, router, limits::CONNECTIONS, site.patience, stop).await;
            Ok::<_, ServerError>(())
        })?;
        if let Some(studio) = studio {
            studio.close();
        }
        if let Some(background) = background {
            let _ = background.join();
        }
        runtime.shutdown_timeout(Duration::from_secs(1));
        Ok(())
    }
}

/// The host and port that a server is called by: on an address that others reach, the first name that is allowed,
/// because the address itself is refused.
fn called(address: SocketAddr, hosts: &[String]) -> String {
    match hosts.first() {
        Some(host) if !address.ip().is_loopback() => {
            format!("{}:{}", host.to_ascii_lowercase(), address.port())
        }
        _ => address.to_string(),
    }
}
