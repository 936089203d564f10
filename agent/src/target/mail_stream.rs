//! A connection to a mail server as a stream that lettre takes: straight or through a proxy, with TLS from the first byte
//! or without, and with an end to what a server may say. lettre reads a line for as long as it comes, and parses a reply
//! anew with each of its lines.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lettre::transport::smtp::client::AsyncTokioStream;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Most bytes that are read of one connection, with those of STARTTLS: a reply has 512 (RFC 5321, 4.5.3.1.5).
const BYTES: usize = 48 * 1024;

/// A connection to a mail server.
#[derive(Debug)]
pub struct MailStream {
    stream: Stream,
    left: usize,
}

#[derive(Debug)]
enum Stream {
    Clear(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl MailStream {
    /// A connection as it is. lettre may begin TLS on it later.
    pub fn clear(stream: TcpStream) -> MailStream {
        MailStream { stream: Stream::Clear(stream), left: BYTES }
    }

    /// Opens TLS to the server of that name.
    ///
    /// # Errors
    /// Those of the connection, of TLS and of a certificate that is not the server's.
    pub async fn tls(stream: TcpStream, host: &str, config: Arc<ClientConfig>) -> io::Result<MailStream> {
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).map_err(io::Error::other)?;
        let stream = TlsConnector::from(config).connect(name, stream).await?;
        Ok(MailStream { stream: Stream::Tls(Box::new(stream)), left: BYTES })
    }

    fn inner(&mut self) -> Pin<&mut dyn Both> {
        let stream: &mut dyn Both = match &mut self.stream {
            Stream::Clear(stream) => stream,
            Stream::Tls(stream) => stream.as_mut(),
        };
        Pin::new(stream)
    }
}

trait Both: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Both for S {}

impl AsyncTokioStream for MailStream {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        match &self.stream {
            Stream::Clear(stream) => stream.peer_addr(),
            Stream::Tls(stream) => stream.get_ref().0.peer_addr(),
        }
    }
}

impl AsyncRead for MailStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.left == 0 {
            let why = format!("it says more than {} KB without taking the message", BYTES / 1024);
            return Poll::Ready(Err(io::Error::other(why)));
        }
        let before = into.filled().len();
        let polled = self.inner().poll_read(context, into);
        let read = into.filled().len() - before;
        self.left = self.left.saturating_sub(read);
        polled
    }
}

impl AsyncWrite for MailStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.inner().poll_write(context, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_shutdown(context)
    }
}
