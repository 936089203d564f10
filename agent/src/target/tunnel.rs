//! A stream to a host and port for what is not HTTP: straight, or through a proxy by HTTP's CONNECT (RFC 9110, 9.3.6) or
//! SOCKS 5 (RFC 1928, with user and password RFC 1929).

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use reqwest::Url;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::resolver::Resolver;
use super::secret::Secret;

/// Most bytes of a proxy's answer to CONNECT.
const ANSWER_BYTES: usize = 8 * 1024;

/// A proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyAddress {
    scheme: Scheme,
    host: String,
    port: u16,
    login: Option<(String, Secret)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Socks {
        /// Whether the proxy looks names up.
        by_name: bool,
    },
}

impl ProxyAddress {
    /// Reads `http://`, `socks5://` or `socks5h://` with host, and port and `user:password@` where needed. None where it is
    /// something else: an `https://` proxy is for HTTP only.
    pub fn parse(text: &str) -> Option<ProxyAddress> {
        let url = Url::parse(text.trim()).ok()?;
        let (scheme, usual_port) = match url.scheme() {
            "http" => (Scheme::Http, 80),
            "socks5" => (Scheme::Socks { by_name: false }, 1080),
            "socks5h" => (Scheme::Socks { by_name: true }, 1080),
            _ => return None,
        };
        let host = url.host_str().filter(|host| !host.is_empty())?.trim_matches(['[', ']']).to_owned();
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let login = match (url.username(), url.password()) {
            ("", None) => None,
            (user, password) => Some((decode(user), Secret::new(decode(password.unwrap_or_default())))),
        };
        Some(ProxyAddress { scheme, host, port: url.port().unwrap_or(usual_port), login })
    }

    /// A stream through the proxy: a connection to each of its addresses, and what is said to it, may take as long as
    /// `limit`. The reason of a failure holds no secret.
    pub async fn open(&self, host: &str, port: u16, resolver: &Resolver, limit: Duration) -> Result<TcpStream, String> {
        let place = format!("the proxy {}:{}", self.host, self.port);
        let stream = connect(&self.host, self.port, resolver, limit).await;
        let mut stream = stream.map_err(|why| format!("no connection to {place}: {why}"))?;
        let asked = timeout(limit, self.ask(&mut stream, host, port, resolver)).await;
        let asked = asked.unwrap_or_else(|_| Err(format!("does not open the way within {} ms", limit.as_millis())));
        asked.map(|()| stream).map_err(|why| format!("{place} {why}"))
    }

    async fn ask(&self, stream: &mut TcpStream, host: &str, port: u16, resolver: &Resolver) -> Result<(), String> {
        match self.scheme {
            Scheme::Http => self.connect(stream, host, port).await,
            Scheme::Socks { by_name } => {
                let ip = match host.trim_matches(['[', ']']).parse() {
                    Ok(ip) => Some(ip),
                    Err(_) if by_name => None,
                    Err(_) => resolver.addresses(host).await?.into_iter().next(),
                };
                self.socks(stream, host, ip, port).await
            }
        }
    }

    async fn connect(&self, stream: &mut TcpStream, host: &str, port: u16) -> Result<(), String> {
        let mut request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n");
        if let Some((user, password)) = &self.login {
            let login = STANDARD.encode(format!("{user}:{}", password.expose()));
            request.push_str(&format!("Proxy-Authorization: Basic {login}\r\n"));
        }
        write(stream, format!("{request}\r\n").as_bytes()).await?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() >= ANSWER_BYTES {
                return Err("answers without an end".to_owned());
            }
            // One by one, so that nothing of the server's own greeting is taken.
            answer.push(stream.read_u8().await.map_err(broke_off)?);
        }
        let line = String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned();
        match line.split(' ').nth(1) {
            Some(status) if status.len() == 3 && status.starts_with('2') => Ok(()),
            _ => Err(format!("answered `{}`", line.chars().take(100).collect::<String>())),
        }
    }

    async fn socks(&self, stream: &mut TcpStream, host: &str, ip: Option<IpAddr>, port: u16) -> Result<(), String> {
        const NO_LOGIN: u8 = 0;
        const PASSWORD: u8 = 2;
        let method = if self.login.is_some() { PASSWORD } else { NO_LOGIN };
        write(stream, &[5, 1, method]).await?;
        if read::<2>(stream).await? != [5, method] {
            return Err("wants to be logged in to in another way".to_owned());
        }
        if let Some((user, password)) = &self.login {
            let too_long = |_| "cannot be given a user or password of more than 255 bytes".to_owned();
            let mut login = vec![1];
            for part in [user.as_bytes(), password.expose().as_bytes()] {
                login.push(u8::try_from(part.len()).map_err(too_long)?);
                login.extend_from_slice(part);
            }
            write(stream, &login).await?;
            if read::<2>(stream).await?[1] != 0 {
                return Err("refuses user and password".to_owned());
            }
        }
        let mut request = vec![5, 1, 0];
        match ip {
            Some(IpAddr::V4(ip)) => request.extend_from_slice(&[&[1], &ip.octets()[..]].concat()),
            Some(IpAddr::V6(ip)) => request.extend_from_slice(&[&[4], &ip.octets()[..]].concat()),
            None => {
                let length = u8::try_from(host.len()).map_err(|_| "cannot be given so long a name".to_owned())?;
                request.extend_from_slice(&[&[3, length], host.as_bytes()].concat());
            }
        }
        request.extend_from_slice(&port.to_be_bytes());
        write(stream, &request).await?;
        let [_, answer, _, kind] = read::<4>(stream).await?;
        if answer != 0 {
            return Err(format!("finds no way there (SOCKS reply {answer})"));
        }
        let bound = match kind {
            1 => 4,
            4 => 16,
            _ => usize::from(stream.read_u8().await.map_err(broke_off)?),
        };
        let mut rest = vec![0; bound + 2];
        stream.read_exact(&mut rest).await.map(drop).map_err(broke_off)
    }
}

/// A stream to the first address of the host that takes one; each may take as long as `limit`. An address that swallows
/// everything, as IPv6 does on many machines, costs no more than that.
pub async fn connect(host: &str, port: u16, resolver: &Resolver, limit: Duration) -> Result<TcpStream, String> {
    let mut why = String::new();
    for ip in resolver.addresses(host).await? {
        match timeout(limit, TcpStream::connect(SocketAddr::new(ip, port))).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => why = error.to_string(),
            Err(_) => why = format!("no answer within {} ms", limit.as_millis()),
        }
    }
    Err(why)
}

async fn write(stream: &mut TcpStream, bytes: &[u8]) -> Result<(), String> {
    stream.write_all(bytes).await.map_err(broke_off)
}

async fn read<const COUNT: usize>(stream: &mut TcpStream) -> Result<[u8; COUNT], String> {
    let mut bytes = [0; COUNT];
    stream.read_exact(&mut bytes).await.map_err(broke_off)?;
    Ok(bytes)
}

fn broke_off(error: std::io::Error) -> String {
    format!("broke off: {error}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// A proxy that plays a script of (what it must be told, what it answers), and greets as the server behind it.
    async fn proxy(script: Vec<(Vec<u8>, Vec<u8>)>) -> (u16, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            for (expected, answer) in script {
                let mut told = vec![0; expected.len()];
                stream.read_exact(&mut told).await.unwrap();
                assert_eq!(told, expected, "{}", String::from_utf8_lossy(&told));
                stream.write_all(&answer).await.unwrap();
            }
        });
        (port, task)
    }

    async fn open(scheme: &str, login: &str, script: Vec<(Vec<u8>, Vec<u8>)>) -> Result<String, String> {
        let (port, task) = proxy(script).await;
        let address = ProxyAddress::parse(&format!("{scheme}://{login}127.0.0.1:{port}")).unwrap();
        let look_up = |host: &str| Ok(vec![if host == "mail.example" { "10.1.2.3" } else { host }.parse().unwrap()]);
        let mut stream = address.open("mail.example", 587, &Resolver::new(look_up), Duration::from_secs(5)).await?;
        let mut greeting = String::new();
        stream.read_to_string(&mut greeting).await.unwrap();
        task.await.unwrap();
        Ok(greeting)
    }

    #[tokio::test]
    async fn by_connect() {
        let request = "CONNECT mail.example:587 HTTP/1.1\r\nHost: mail.example:587\r\n";
        let answer = "HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n220 mail.example";
        let script = vec![(format!("{request}\r\n").into_bytes(), answer.into())];
        assert_eq!(open("http", "", script).await.unwrap(), "220 mail.example");
        let login = "Proxy-Authorization: Basic dXNlcjpwQHNz\r\n\r\n";
        let refused = "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n";
        let script = vec![(format!("{request}{login}").into_bytes(), refused.into())];
        let why = open("http", "user:p%40ss@", script).await.unwrap_err();
        assert!(why.ends_with("answered `HTTP/1.1 407 Proxy Authentication Required`"), "{why}");
        assert!(!why.contains("p@ss"), "{why}");
    }

    #[tokio::test]
    async fn by_socks() {
        let hello = |method| (vec![5, 1, method], vec![5, method]);
        let bound = |more: &str| [&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0], more.as_bytes()].concat();
        let by_ip = vec![hello(0), (vec![5, 1, 0, 1, 10, 1, 2, 3, 2, 75], bound("220 hi"))];
        assert_eq!(open("socks5", "", by_ip).await.unwrap(), "220 hi");
        let login = ([&[1, 4], &b"user"[..], &[4], b"p@ss"].concat(), vec![1, 0]);
        let name = [&[5, 1, 0, 3, 12], &b"mail.example"[..], &[2, 75]].concat();
        let by_name = vec![hello(2), login, (name.clone(), bound("220 hi"))];
        assert_eq!(open("socks5h", "user:p%40ss@", by_name).await.unwrap(), "220 hi");
        let refused = vec![hello(0), (name, vec![5, 5, 0, 1])];
        assert!(open("socks5h", "", refused).await.unwrap_err().ends_with("finds no way there (SOCKS reply 5)"));
    }

    /// Holds a fault: an address that swallows everything took all the time, and the next one was not tried.
    #[tokio::test]
    async fn each_address_has_its_time() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let resolver = |first: &str| {
            let ips = vec![first.parse().unwrap(), "127.0.0.1".parse().unwrap()];
            Resolver::new(move |_| Ok(ips.clone()))
        };
        let refused = connect("mail.example", port, &resolver("127.0.0.2"), Duration::from_secs(5)).await.unwrap();
        assert_eq!(refused.peer_addr().unwrap().ip().to_string(), "127.0.0.1");
        let full = filled_queue("127.0.0.3", port).await;
        let stream = connect("mail.example", port, &resolver("127.0.0.3"), Duration::from_millis(200)).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap().ip().to_string(), "127.0.0.1");
        drop(full);
    }

    /// Connections until one gets no answer.
    async fn filled_queue(ip: &str, port: u16) -> impl Sized {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        let address = SocketAddr::new(ip.parse().unwrap(), port);
        socket.bind(address).unwrap();
        let (listener, mut waiting) = (socket.listen(0).unwrap(), Vec::new());
        while let Ok(stream) = timeout(Duration::from_millis(200), TcpStream::connect(address)).await {
            waiting.push(stream.unwrap());
        }
        (listener, waiting)
    }

    #[test]
    fn what_is_no_proxy_for_this_is_none() {
        for text in ["https://proxy:3128", "proxy:3128", "ftp://proxy", "http://", ""] {
            assert_eq!(ProxyAddress::parse(text), None, "{text}");
        }
        let address = ProxyAddress::parse("socks5h://user:secret@[::1]").unwrap();
        assert_eq!((address.host.as_str(), address.port), ("::1", 1080));
        assert!(!format!("{address:?}").contains("secret"));
    }
}
