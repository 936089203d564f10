//! The part of ZooKeeper's protocol that claims need: a session and five requests, one at a time.
//!
//! Source: `zookeeper.jute` of Apache ZooKeeper; unchanged since 3.4. Numbers are big-endian, a text or a buffer is its
//! length and its bytes, and each message is preceded by its length.
//!
//! Own code, since the crates that speak it bring a thread and a reactor of their own (`zookeeper-client` from 0.9), a
//! second provider of cryptography (0.8 and before), or panics on a bad answer (`tokio-zookeeper`).

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

/// Session timeout that we ask for. The server decides, within its own bounds.
const SESSION_MS: i32 = 10_000;
/// Longest answer that is read, in bytes; ZooKeeper's own limit is 1 MiB where it is not raised.
const LONGEST: usize = 4 << 20;
/// All rights, in a list of access rights.
const ALL_RIGHTS: i32 = 31;
/// Bytes of a session's password.
const PASSWORD: i32 = 16;

/// Why a request came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// No connection, or none any more.
    Connection(String),
    /// The node is not there.
    NoNode,
    /// The node is there already.
    NodeExists,
    /// The node has another version.
    BadVersion,
    /// Access is denied, or the server wants SASL.
    NotAllowed,
    /// An error code that is not expected (`KeeperException.Code`).
    Other(i32),
}

impl Fault {
    pub(super) fn connection(reason: impl Into<String>) -> Fault {
        Fault::Connection(reason.into())
    }

    /// The same, with the server that it is about.
    pub(super) fn of_server(self, host: &str, port: u16) -> Fault {
        match self {
            Fault::Connection(reason) => Fault::Connection(format!("{host}:{port}: {reason}")),
            other => other,
        }
    }

    fn of_code(code: i32) -> Fault {
        match code {
            -101 => Fault::NoNode,
            -110 => Fault::NodeExists,
            -103 => Fault::BadVersion,
            // NoAuth, AuthFailed, SessionClosedRequireSaslAuth.
            -102 | -115 | -124 => Fault::NotAllowed,
            // The session or the server's own connection to its peers is gone.
            -4 | -112 | -118 => Fault::Connection(format!("error {code} of ZooKeeper")),
            code => Fault::Other(code),
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::Connection(match error.kind() {
            io::ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
            _ => error.to_string(),
        })
    }
}

/// A request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Request<'a> {
    Create { path: &'a str, body: &'a [u8] },
    Delete { path: &'a str, version: i32 },
    Get { path: &'a str },
    Set { path: &'a str, version: i32, body: &'a [u8] },
    Children { path: &'a str },
}

/// What is known of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    /// The transaction that wrote it.
    pub(super) transaction: i64,
    /// When that was, by the server's clock: milliseconds since the epoch.
    pub(super) modified_ms: i64,
    /// How often it was written since it was made.
    pub(super) version: i32,
}

/// The answer to a request; what it does not hold is empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Reply {
    /// The transaction of a write.
    pub(super) transaction: i64,
    pub(super) body: Vec<u8>,
    pub(super) stat: Option<Stat>,
    pub(super) children: Vec<String>,
}

/// A session with one server.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    last: i32,
    /// What the server may take for one answer.
    patience: Duration,
}

impl Connection {
    /// Opens a session. The caller limits the time of this, `patience` that of each answer.
    pub(super) async fn open(address: SocketAddr, patience: Duration) -> Result<Connection, Fault> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut connection = Connection { stream, last: 0, patience };
        let mut hello = Writer::default();
        hello.int(0).long(0).int(SESSION_MS).long(0).int(PASSWORD).bytes(&[0; PASSWORD as usize]);
        connection.send(hello).await?;
        let answer = connection.receive().await?;
        let mut answer = Reader(&answer);
        let (_protocol, granted_ms) = (answer.int()?, answer.int()?);
        if granted_ms <= 0 {
            return Err(Fault::connection("it grants no session"));
        }
        Ok(connection)
    }

    /// Puts one request. After a [`Fault::Connection`], or where the future is dropped, the connection is of no use.
    pub(super) async fn ask(&mut self, request: &Request<'_>) -> Result<Reply, Fault> {
        match timeout(self.patience, self.exchange(request)).await {
            Ok(reply) => reply,
            Err(_) => Err(Fault::connection(format!("no answer within {} ms", self.patience.as_millis()))),
        }
    }

    async fn exchange(&mut self, request: &Request<'_>) -> Result<Reply, Fault> {
        self.last = self.last.wrapping_add(1) & i32::MAX;
        let mut message = Writer::default();
        message.int(self.last);
        match *request {
            Request::Create { path, body } => {
                message.int(1).buffer(path.as_bytes()).buffer(body);
                // One right for everybody, and a node that stays.
                message.int(1).int(ALL_RIGHTS).buffer(b"world").buffer(b"anyone").int(0);
            }
            Request::Delete { path, version } => {
                message.int(2).buffer(path.as_bytes()).int(version);
            }
            Request::Get { path } => {
                message.int(4).buffer(path.as_bytes()).bytes(&[0]);
            }
            Request::Set { path, version, body } => {
                message.int(5).buffer(path.as_bytes()).buffer(body).int(version);
            }
            Request::Children { path } => {
                message.int(8).buffer(path.as_bytes()).bytes(&[0]);
            }
        }
        self.send(message).await?;
        let answer = self.receive().await?;
        parse(self.last, request, &answer)
    }

    /// Ends the session. Whether the server hears it does not matter: the session ends anyway.
    pub(super) async fn close(mut self) {
        let mut message = Writer::default();
        message.int(self.last.wrapping_add(1) & i32::MAX).int(-11);
        let patience = self.patience;
        let _ = timeout(patience, async {
            self.send(message).await?;
            self.receive().await
        })
        .await;
    }

    async fn send(&mut self, message: Writer) -> Result<(), Fault> {
        let length = i32::try_from(message.0.len()).map_err(|_| Fault::connection("a message is too long"))?;
        let mut framed = length.to_be_bytes().to_vec();
        framed.extend(message.0);
        let mut rest = framed.as_slice();
        while !rest.is_empty() {
            self.stream.writable().await?;
            match self.stream.try_write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn receive(&mut self) -> Result<Vec<u8>, Fault> {
        let mut length = [0; 4];
        self.fill(&mut length).await?;
        let length = usize::try_from(i32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > LONGEST {
            return Err(Fault::connection("it does not speak ZooKeeper's protocol"));
        }
        let mut message = vec![0; length];
        self.fill(&mut message).await?;
        Ok(message)
    }

    async fn fill(&mut self, buffer: &mut [u8]) -> Result<(), Fault> {
        let mut filled = 0;
        while filled < buffer.len() {
            self.stream.readable().await?;
            match self.stream.try_read(&mut buffer[filled..]) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn parse(number: i32, request: &Request<'_>, answer: &[u8]) -> Result<Reply, Fault> {
    let mut answer = Reader(answer);
    let (answered, transaction, code) = (answer.int()?, answer.long()?, answer.int()?);
    if answered != number {
        return Err(Fault::connection("it answers another question"));
    }
    if code != 0 {
        return Err(Fault::of_code(code));
    }
    let mut reply = Reply { transaction, ..Reply::default() };
    match request {
        Request::Create { .. } | Request::Delete { .. } => {}
        Request::Get { .. } => {
            reply.body = answer.buffer()?.to_vec();
            reply.stat = Some(answer.stat()?);
        }
        Request::Set { .. } => reply.stat = Some(answer.stat()?),
        Request::Children { .. } => {
            for _ in 0..answer.int()? {
                reply.children.push(String::from_utf8_lossy(answer.buffer()?).into_owned());
            }
        }
    }
    Ok(reply)
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn int(&mut self, value: i32) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    fn long(&mut self, value: i64) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// A buffer or a text, which are no longer than a claim.
    fn buffer(&mut self, bytes: &[u8]) -> &mut Self {
        self.int(i32::try_from(bytes.len()).unwrap_or(i32::MAX)).bytes(bytes)
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(|| Fault::connection("an answer breaks off"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn int(&mut self) -> Result<i32, Fault> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    fn long(&mut self) -> Result<i64, Fault> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// A buffer; a length of -1 stands for none.
    fn buffer(&mut self) -> Result<&'a [u8], Fault> {
        let length = self.int()?.max(0);
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    fn stat(&mut self) -> Result<Stat, Fault> {
        let (_created, transaction, _created_ms, modified_ms) =
            (self.long()?, self.long()?, self.long()?, self.long()?);
        Ok(Stat { transaction, modified_ms, version: self.int()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(number: i32, code: i32, rest: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut message = Writer::default();
        message.int(number).long(77).int(code);
        rest(&mut message);
        message.0
    }

    #[test]
    fn answers_are_read_and_bad_ones_refused() {
        let get = Request::Get { path: "/x" };
        let whole = answer(5, 0, |m| {
            m.buffer(b"body").long(1).long(2).long(3).long(4).int(6).bytes(&[0; 36]);
        });
        let stat = Stat { transaction: 2, modified_ms: 4, version: 6 };
        let expected = Reply { transaction: 77, body: b"body".to_vec(), stat: Some(stat), children: Vec::new() };
        assert_eq!(parse(5, &get, &whole), Ok(expected));
        for cut in 0..whole.len() - 36 {
            assert!(matches!(parse(5, &get, &whole[..cut]), Err(Fault::Connection(_))), "{cut}");
        }
        assert!(matches!(parse(6, &get, &whole), Err(Fault::Connection(_))));
        assert_eq!(parse(5, &get, &answer(5, -101, |_| {})), Err(Fault::NoNode));
        assert_eq!(parse(5, &get, &answer(5, -102, |_| {})), Err(Fault::NotAllowed));
        let many = answer(5, 0, |m| {
            m.int(i32::MAX).buffer(b"a");
        });
        assert!(matches!(parse(5, &Request::Children { path: "/" }, &many), Err(Fault::Connection(_))));
    }
}
