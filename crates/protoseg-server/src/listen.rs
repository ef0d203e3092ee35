//! Connections: as many as are allowed, each with time limits, until the server is asked to stop. Requests that are in
//! work then finish.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{Instant, Sleep, sleep},
};

use crate::limits;

/// Answers so many connections at a time, until `stop` is ready. Others wait for a place.
pub async fn listen(
    listener: TcpListener,
    router: Router,
    connections: usize,
    patience: Duration,
    stop: impl Future<Output = ()>,
) {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(connections));
    let mut stop = std::pin::pin!(stop);
    loop {
        let accept = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = accept => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(_) => {
                // Too many open files: they become fewer.
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let io = TokioIo::new(Patient::new(stream, 3 * patience));
        let service = TowerToHyperService::new(router.clone());
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(patience).max_buf_size(64 << 10);
        let connection = graceful.watch(builder.serve_connection(io, service));
        tokio::spawn(async move {
            let _place = place;
            // A client that breaks off harms nobody else.
            let _ = connection.await;
        });
    }
    drop(listener);
    tokio::select! {
        () = graceful.shutdown() => {}
        () = sleep(limits::STOP_TIME) => {}
    }
}

/// A connection that is given up if the other side takes nothing for a while.
struct Patient {
    stream: TcpStream,
    patience: Duration,
    /// Runs while a write waits.
    waits: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn new(stream: TcpStream, patience: Duration) -> Self {
        Self { stream, patience, waits: None }
    }

    /// Lets a write wait until patience ends.
    fn watch<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waits = None;
            return written;
        }
        let patience = self.patience;
        let waits =
            self.waits.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + patience)));
        match waits.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(written, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net,
    };

    use axum::routing::get;

    use super::*;

    #[test]
    fn one_connection_too_many_waits_for_a_place() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(async || "here"));
        runtime.spawn(listen(listener, router, 2, Duration::from_secs(30), std::future::pending()));
        let ask = || {
            let mut stream = net::TcpStream::connect(address).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            stream
        };
        let is_answered = |stream: &mut net::TcpStream, seconds: f32| {
            stream.set_read_timeout(Some(Duration::from_secs_f32(seconds))).unwrap();
            let mut start = [0; 12];
            stream.read_exact(&mut start).is_ok() && &start == b"HTTP/1.1 200"
        };
        let (mut first, mut second) = (ask(), ask());
        assert!(is_answered(&mut first, 30.0) && is_answered(&mut second, 30.0));
        let mut third = ask();
        assert!(!is_answered(&mut third, 0.3), "both places are taken");
        drop(first);
        assert!(is_answered(&mut third, 30.0), "one is free");
        drop(second);
        runtime.shutdown_background();
    }

    #[test]
    fn a_client_that_takes_nothing_of_its_answer_is_left() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        // More than sockets hold.
        let length = 64 << 20;
        let router = Router::new().route("/", get(async move || vec![0u8; length]));
        runtime.spawn(listen(listener, router, 1, Duration::from_millis(300), std::future::pending()));
        let ask = || {
            let mut stream = net::TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
            stream
        };
        let take = |mut stream: net::TcpStream| {
            let mut all = Vec::new();
            let _ = stream.read_to_end(&mut all);
            all.len()
        };
        let idle = ask();
        // There is one place only: this one is answered when the first was left.
        assert!(take(ask()) > length);
        assert!(take(idle) < length, "it was given up");
        runtime.shutdown_background();
    }
}
