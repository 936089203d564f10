//! The Kubernetes API on loopback: a real kube-apiserver with access control and an audit log, on its etcd. There is no node:
//! what stands for a pod is a local process that finds a service account's files where a pod has them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::installation::{ask_script, path, source_root};
use crate::ports;
use crate::process::{Guard, Process};
use crate::wait;

/// The namespace of everything.
pub const NAMESPACE: &str = "flink";
/// The service account of the agent, as the documents name it.
pub const ACCOUNT: &str = "system:serviceaccount:flink:flink";
/// The user that Flink itself speaks to Kubernetes as: another one, so that the audit log tells the two apart.
const FLINK: &str = "flink-itself";
/// May do everything.
const ADMIN: &str = "admin";

const START_LIMIT: Duration = Duration::from_secs(120);

/// Makes a process into what stands for a pod: it sees a service account's files and where the API is.
const POD: &str = r#"
set -e
mount -t tmpfs none /run
mkdir -p /run/secrets/kubernetes.io/serviceaccount
cp "$1"/* /run/secrets/kubernetes.io/serviceaccount/
export KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT="$2"
shift 2
exec "$@"
"#;

/// What the agent's account asks for goes into the audit log.
const AUDIT_POLICY: &str = r#"{
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": ["ACCOUNT"]}, {"level": "None"}]
}"#;

/// A running API server. It is stopped, and its folder removed, when this value goes.
pub struct Kubernetes {
    folder: TempDir,
    port: u16,
    http: ureq::Agent,
    server: Process,
    _etcd: Process,
    _guard: Arc<Guard>,
}

impl Kubernetes {
    /// Starts both, makes the namespace, and lets Flink itself do what it needs. The agent's account may do nothing yet.
    ///
    /// # Errors
    /// Where they do not start.
    pub fn start() -> Result<Self> {
        let programs = ask_script("kubernetes", &[])?;
        let folder = TempDir::with_prefix("leaderwatch-kubernetes-")?;
        let guard = Guard::new(folder.path(), None)?;
        let port = ports::free();
        let ca = write_files(folder.path())?;
        let (etcd, etcd_url) = start_etcd(&path(&programs, "etcd")?, folder.path(), &guard)?;
        let server = start_server(&path(&programs, "kube_apiserver")?, folder.path(), port, &etcd_url, &guard)?;
        let roots = RootCerts::new_with_certs(&[Certificate::from_pem(ca.as_bytes())?]);
        let http = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(10)))
            .http_status_as_error(false)
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .build()
            .into();
        let mut kubernetes = Self { folder, port, http, server, _etcd: etcd, _guard: guard };
        let log = kubernetes.folder.path().join("apiserver.log");
        let mut end = None;
        wait::until("the Kubernetes API to be ready", START_LIMIT, || {
            end = kubernetes.server.ended()?;
            if end.is_some() {
                return Ok(Some(()));
            }
            // The roles of the system are written after the rest.
            let is_ready = kubernetes.get("/readyz").is_ok()
                && kubernetes.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin").is_ok();
            Ok(is_ready.then_some(()))
        })
        .with_context(|| fs::read_to_string(&log).unwrap_or_default())?;
        if let Some(status) = end {
            bail!("kube-apiserver ended with {status}:\n{}", fs::read_to_string(&log).unwrap_or_default());
        }
        kubernetes.create(
            "/api/v1/namespaces",
            &format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {NAMESPACE}}}"),
        )?;
        kubernetes.allow("flink-itself", &[("configmaps", &["*"]), ("pods", &["*"])], FLINK)?;
        Ok(kubernetes)
    }

    /// Port of the API.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// GET as administrator.
    ///
    /// # Errors
    /// Where nobody answers, or with another status than 2xx.
    pub fn get(&self, path: &str) -> Result<Value> {
        let url = format!("https://127.0.0.1:{}{path}", self.port);
        let answer = self.http.get(&url).header("Authorization", format!("Bearer {ADMIN}")).call()?;
        json_of(&url, answer)
    }

    /// POST of an object in YAML or JSON, as administrator.
    ///
    /// # Errors
    /// As [`Kubernetes::get`].
    pub fn create(&self, path: &str, object: &str) -> Result<Value> {
        let url = format!("https://127.0.0.1:{}{path}", self.port);
        let request = self.http.post(&url).header("Authorization", format!("Bearer {ADMIN}"));
        json_of(&url, request.content_type("application/yaml").send(object)?)
    }

    /// PUT of an object in YAML or JSON, as administrator.
    ///
    /// # Errors
    /// As [`Kubernetes::get`].
    pub fn replace(&self, path: &str, object: &str) -> Result<Value> {
        let url = format!("https://127.0.0.1:{}{path}", self.port);
        let request = self.http.put(&url).header("Authorization", format!("Bearer {ADMIN}"));
        json_of(&url, request.content_type("application/yaml").send(object)?)
    }

    /// Gives rights in the namespace to a user.
    fn allow(&self, role: &str, rights: &[(&str, &[&str])], user: &str) -> Result<()> {
        let rules: Vec<Value> = rights
            .iter()
            .map(|(resource, verbs)| serde_json::json!({"apiGroups": [""], "resources": [resource], "verbs": verbs}))
            .collect();
        let api = "rbac.authorization.k8s.io";
        let metadata = serde_json::json!({"name": role, "namespace": NAMESPACE});
        self.create(
            &rights_path("roles"),
            &serde_json::json!({"apiVersion": format!("{api}/v1"), "kind": "Role", "metadata": metadata, "rules": rules})
                .to_string(),
        )?;
        let binding = serde_json::json!({
            "apiVersion": format!("{api}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": api, "kind": "Role", "name": role},
            "subjects": [{"apiGroup": api, "kind": "User", "name": user}],
        });
        self.create(&rights_path("rolebindings"), &binding.to_string()).map(|_| ())
    }

    /// Gives the rights that a document asks for: every Role and RoleBinding in its YAML, as they stand there. Returns
    /// the rights, each as `verb resource`.
    ///
    /// # Errors
    /// Where the document has none, or the API refuses one.
    pub fn allow_as_in(&self, document: &str) -> Result<BTreeSet<String>> {
        let file = source_root().join("docs").join(document);
        let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
        let mut rights = BTreeSet::new();
        for object in yaml_objects(&text) {
            if object.lines().any(|line| line == "kind: Role") {
                let role = self.create(&rights_path("roles"), object)?;
                rights.extend(rights_of(&role));
            } else if object.lines().any(|line| line == "kind: RoleBinding") {
                self.create(&rights_path("rolebindings"), object)?;
            }
        }
        ensure!(!rights.is_empty(), "{} holds no Role", file.display());
        Ok(rights)
    }

    /// What the agent's account asked for and was granted, each as `verb resource`.
    ///
    /// # Errors
    /// Where the audit log cannot be read.
    pub fn rights_used(&self) -> Result<BTreeSet<String>> {
        Ok(self.audited()?.into_iter().filter(|(_, code)| *code != 403).map(|(right, _)| right).collect())
    }

    /// What the agent's account asked for and was refused.
    ///
    /// # Errors
    /// Where the audit log cannot be read.
    pub fn rights_refused(&self) -> Result<BTreeSet<String>> {
        Ok(self.audited()?.into_iter().filter(|(_, code)| *code == 403).map(|(right, _)| right).collect())
    }

    /// What the agent's account asked for, with the status of the answer.
    fn audited(&self) -> Result<Vec<(String, u64)>> {
        let text = fs::read_to_string(self.folder.path().join("audit.log"))?;
        // The last line may be in the middle of being written.
        let events = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        events
            .map(|line| {
                let event: Value = serde_json::from_str(line)?;
                let right = format!(
                    "{} {}",
                    event["verb"].as_str().unwrap_or_default(),
                    event["objectRef"]["resource"].as_str().unwrap_or_default()
                );
                Ok((right, event["responseStatus"]["code"].as_u64().unwrap_or(0)))
            })
            .collect()
    }

    /// The ConfigMaps of the namespace that the agents made.
    ///
    /// # Errors
    /// Where the API does not answer.
    pub fn claims(&self) -> Result<Vec<Value>> {
        let path =
            format!("/api/v1/namespaces/{NAMESPACE}/configmaps?labelSelector=app.kubernetes.io/managed-by=leaderwatch");
        Ok(self.get(&path)?["items"].as_array().cloned().unwrap_or_default())
    }

    /// The ConfigMaps of the namespace that hold a lease of Flink's, with what the lease says.
    fn leases(&self) -> Result<Vec<(Value, Value)>> {
        let found = self.get(&format!("/api/v1/namespaces/{NAMESPACE}/configmaps"))?;
        let maps = found["items"].as_array().cloned().unwrap_or_default().into_iter();
        Ok(maps.filter_map(|map| Some((lease_of(&map)?, map))).map(|(lease, map)| (map, lease)).collect())
    }

    /// Whether each lease of Flink's was renewed after `since`.
    ///
    /// # Errors
    /// Where the API does not answer.
    pub fn leases_renewed_since(&self, since: Timestamp) -> Result<bool> {
        let leases = self.leases()?;
        let is_renewed = |lease: &Value| {
            lease["renewTime"].as_str().and_then(|at| at.parse::<Timestamp>().ok()).is_some_and(|at| at > since)
        };
        Ok(!leases.is_empty() && leases.iter().all(|(_, lease)| is_renewed(lease)))
    }

    /// Takes all leases of Flink's on behalf of somebody who never renews them, as a standby does that dies at once.
    ///
    /// # Errors
    /// Where there is none, or a holder renews faster than it can be taken.
    pub fn take_leases(&self) -> Result<()> {
        let leases = self.leases()?;
        ensure!(!leases.is_empty(), "no ConfigMap of the namespace holds a lease");
        for (map, _) in leases {
            let name = map["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{name}");
            crate::wait::until(&format!("{name} to be taken"), Duration::from_secs(30), || {
                let mut map = self.get(&path)?;
                let mut lease = lease_of(&map).with_context(|| format!("{name} holds no lease"))?;
                lease["holderIdentity"] = "somebody-else".into();
                lease["renewTime"] = format!("{:.6}", Timestamp::now()).into();
                map["metadata"]["annotations"][LEASE] = lease.to_string().into();
                // Renewed in between: the version of the object is another one, and it is read again.
                Ok(self.replace(&path, &map.to_string()).ok().map(|_| ()))
            })?;
        }
        Ok(())
    }

    /// SIGSTOP: nobody gets an answer.
    ///
    /// # Errors
    /// Where it does not run.
    pub fn freeze(&self) -> Result<()> {
        self.server.signal(Signal::STOP)
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// Where it does not run.
    pub fn thaw(&self) -> Result<()> {
        self.server.signal(Signal::CONT)
    }

    /// Words to put before a command, so that it runs as in a pod of the agent's account. Needs to be root.
    pub fn pod(&self) -> Vec<String> {
        let words = ["unshare", "--mount", "sh", "-c", POD, "sh"];
        let mut words: Vec<String> = words.map(str::to_owned).to_vec();
        words.extend([self.account_files().display().to_string(), self.port.to_string()]);
        words
    }

    /// Folder of the account's files, as a pod has them.
    pub fn account_files(&self) -> PathBuf {
        self.folder.path().join("serviceaccount")
    }

    /// A kubeconfig for Flink itself.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        let file = self.folder.path().join("kubeconfig");
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "local",
            "clusters": [{"name": "local", "cluster": {
                "server": format!("https://127.0.0.1:{}", self.port),
                "certificate-authority": self.account_files().join("ca.crt"),
            }}],
            "users": [{"name": "flink", "user": {"token": FLINK}}],
            "contexts": [{"name": "local", "context": {"cluster": "local", "user": "flink", "namespace": NAMESPACE}}],
        });
        fs::write(&file, config.to_string())?;
        Ok(file)
    }
}

/// Annotation in which the client library of Flink keeps a lease.
const LEASE: &str = "control-plane.alpha.kubernetes.io/leader";

fn lease_of(map: &Value) -> Option<Value> {
    serde_json::from_str(map["metadata"]["annotations"][LEASE].as_str()?).ok()
}

/// Path of a kind of access rules.
pub fn rights_path(kind: &str) -> String {
    format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/{kind}")
}

/// The rights that a role gives, each as `verb resource`.
pub fn rights_of(role: &Value) -> BTreeSet<String> {
    let names = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(|name| Some(name.as_str()?.to_owned())).collect()
    };
    let rules = role["rules"].as_array().into_iter().flatten();
    rules
        .flat_map(|rule| {
            let verbs = names(&rule["verbs"]);
            names(&rule["resources"])
                .into_iter()
                .flat_map(move |resource| verbs.clone().into_iter().map(move |verb| format!("{verb} {resource}")))
        })
        .collect()
}

/// The YAML objects in a document's fenced blocks.
fn yaml_objects(document: &str) -> impl Iterator<Item = &str> {
    let blocks = document.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.flat_map(|block| block.split("---\n"))
}

fn json_of(url: &str, mut answer: ureq::http::Response<ureq::Body>) -> Result<Value> {
    let text = answer.body_mut().read_to_string()?;
    if !answer.status().is_success() {
        bail!("{url} answered {}: {text}", answer.status());
    }
    // `/readyz` answers `ok`.
    Ok(serde_json::from_str(&text).unwrap_or(Value::Null))
}

/// Keys, certificates, tokens and the audit policy; returns the certificate authority.
fn write_files(folder: &Path) -> Result<String> {
    let account = folder.join("serviceaccount");
    fs::create_dir(&account)?;
    let ca_key = rcgen::KeyPair::generate()?;
    let mut ca = rcgen::CertificateParams::new(Vec::new())?;
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    ca.distinguished_name.push(rcgen::DnType::CommonName, "leaderwatch tests");
    let ca_pem = ca.self_signed(&ca_key)?.pem();
    let issuer = rcgen::Issuer::new(ca, ca_key);
    let key = rcgen::KeyPair::generate()?;
    let own = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()])?
        .signed_by(&key, &issuer)?;
    let accounts_key = rcgen::KeyPair::generate()?;
    let token = "token-of-the-service-account";
    let files = [
        ("serviceaccount/ca.crt", ca_pem.clone()),
        ("serviceaccount/token", token.to_owned()),
        ("serviceaccount/namespace", NAMESPACE.to_owned()),
        ("server.crt", own.pem()),
        ("server.key", key.serialize_pem()),
        ("accounts.key", accounts_key.serialize_pem()),
        ("accounts.pub", accounts_key.public_key_pem()),
        (
            "tokens.csv",
            format!(
                "{ADMIN},{ADMIN},1,\"system:masters\"\n{FLINK},{FLINK},2\n\
                 {token},{ACCOUNT},3,\"system:serviceaccounts,system:serviceaccounts:{NAMESPACE}\"\n"
            ),
        ),
        ("audit-policy.json", AUDIT_POLICY.replace("ACCOUNT", ACCOUNT)),
    ];
    for (name, text) in files {
        fs::write(folder.join(name), text)?;
    }
    Ok(ca_pem)
}

fn start_etcd(program: &Path, folder: &Path, guard: &Arc<Guard>) -> Result<(Process, String)> {
    let [clients, peers] = [ports::free(), ports::free()].map(|port| format!("http://127.0.0.1:{port}"));
    let mut command = logged(program, &folder.join("etcd.log"))?;
    command.arg("--data-dir").arg(folder.join("etcd"));
    command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
    command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
    command.args(["--initial-cluster", &format!("default={peers}")]);
    Ok((Process::start("etcd", command, guard)?, clients))
}

fn start_server(program: &Path, folder: &Path, port: u16, etcd: &str, guard: &Arc<Guard>) -> Result<Process> {
    let mut command = logged(program, &folder.join("apiserver.log"))?;
    let file = |name: &str| folder.join(name).display().to_string();
    let options = [
        ("etcd-servers", etcd.to_owned()),
        ("secure-port", port.to_string()),
        ("bind-address", "127.0.0.1".to_owned()),
        // Loopback is not taken; nobody is told this one (TEST-NET-1).
        ("advertise-address", "192.0.2.1".to_owned()),
        ("endpoint-reconciler-type", "none".to_owned()),
        ("service-cluster-ip-range", "10.0.0.0/24".to_owned()),
        ("cert-dir", file("certificates")),
        ("tls-cert-file", file("server.crt")),
        ("tls-private-key-file", file("server.key")),
        ("token-auth-file", file("tokens.csv")),
        ("authorization-mode", "RBAC".to_owned()),
        ("service-account-issuer", "https://kubernetes".to_owned()),
        ("service-account-key-file", file("accounts.pub")),
        ("service-account-signing-key-file", file("accounts.key")),
        ("disable-admission-plugins", "ServiceAccount".to_owned()),
        ("audit-policy-file", file("audit-policy.json")),
        ("audit-log-path", file("audit.log")),
    ];
    command.args(options.map(|(name, value)| format!("--{name}={value}")));
    Process::start("kube-apiserver", command, guard)
}

fn logged(program: &Path, log: &Path) -> Result<Command> {
    let log = File::create(log)?;
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok(command)
}
