//! How to reach the API server, and who we are there.
//!
//! Three ways, as upstream: the file of `--kubeconfig`; `--master` by itself or over that file's server; or the account that a
//! Pod is given. Files are read anew whenever the server does not let us in, so rotated tokens and certificates are found.
//!
//! Absent on purpose: `KUBECONFIG` and the home folder. A service proxy must not follow whoever happens to start it.

use std::path::PathBuf;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::failure::Failure;
use crate::wording::{contexts, of_kubeconfig, unreadable_file};

/// How to reach the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// By a kubeconfig.
    Kubeconfig {
        /// Which one.
        file: KubeconfigFile,
        /// The server, where it is not the file's.
        master: Option<String>,
    },
    /// At this URL, as nobody in particular.
    Master(String),
    /// By the account of our Pod.
    InCluster(Account),
}

/// A kubeconfig, and who names it: a message about it says where to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeconfigFile {
    /// The file.
    pub path: PathBuf,
    /// The flag, or the field of the config file, that names it.
    pub named_by: &'static str,
}

impl KubeconfigFile {
    /// One that a flag names.
    pub fn of_flag(path: PathBuf) -> Self {
        Self { path, named_by: "--kubeconfig" }
    }

    /// One that the config file names.
    pub fn of_document(path: PathBuf) -> Self {
        Self { path, named_by: "clientConnection.kubeconfig" }
    }
}

/// The account that a Pod is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The folder with `token` and `ca.crt`.
    pub folder: PathBuf,
    /// The host of the server.
    pub host: String,
    /// Its port.
    pub port: String,
}

/// Why there is no way to a server. Trying again helps once what the sentence names is put right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// Nobody said where the server is.
    #[error(
        "no source of Services: this is not a Pod with an account (KUBERNETES_SERVICE_HOST is not set). Name an API server with \
         `--kubeconfig FILE` or `--master URL`"
    )]
    Nowhere,
    /// What was named cannot be used.
    #[error("{0}")]
    Unusable(String),
}

const ACCOUNT_FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

impl Access {
    /// The way that the operator's words lead to; without any, the account of our Pod.
    pub fn choose(kubeconfig: Option<KubeconfigFile>, master: Option<String>) -> Result<Self, AccessError> {
        match (kubeconfig, master) {
            (Some(file), master) => Ok(Access::Kubeconfig { file, master }),
            (None, Some(url)) => Ok(Access::Master(url)),
            (None, None) => Account::of_this_pod().map(Access::InCluster).ok_or(AccessError::Nowhere),
        }
    }

    /// The URL of the server, if all that is needed to go there can be read now.
    pub fn address(&self) -> Result<String, AccessError> {
        let unusable = |reason: String| AccessError::Unusable(reason);
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime =
            runtime.map_err(|error| unusable(format!("cannot start the Kubernetes client: {error}")))?;
        let config = runtime.block_on(self.config()).map_err(|failure| match failure {
            Failure::Access(reason) => unusable(reason),
            other => unusable(other.to_string()),
        })?;
        Ok(config.cluster_url.to_string())
    }

    /// Where it stands which authority we trust, in words.
    pub(crate) fn trusted(&self) -> String {
        match self {
            Access::Kubeconfig { file, .. } => {
                format!("`certificate-authority` of `{}`", file.path.display())
            }
            Access::Master(_) => "this system's store".to_owned(),
            Access::InCluster(account) => format!("`{}`", account.folder.join("ca.crt").display()),
        }
    }

    /// What kube needs to know.
    pub(crate) async fn config(&self) -> Result<Config, Failure> {
        let mut config = match self {
            Access::Kubeconfig { file, master } => by_kubeconfig(file, master.as_deref()).await?,
            Access::Master(url) => Config::new(uri("--master", url)?),
            Access::InCluster(account) => account.config()?,
        };
        trim_token(&mut config);
        // We have a pace of our own.
        config.default_retry = false;
        Ok(config)
    }
}

async fn by_kubeconfig(file: &KubeconfigFile, master: Option<&str>) -> Result<Config, Failure> {
    let KubeconfigFile { path, named_by } = file;
    let wrong = |reason: String| {
        Failure::Access(format!("the file `{}` of {named_by} cannot be used: {reason}", path.display()))
    };
    let file = Kubeconfig::read_from(path).map_err(|error| wrong(of_kubeconfig(&error, &[])))?;
    let contexts = contexts(&file);
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .map_err(|error| wrong(of_kubeconfig(&error, &contexts)))?;
    if let Some(reason) = unreadable_file(&config.auth_info) {
        return Err(wrong(reason));
    }
    if let Some(url) = master {
        config.cluster_url = uri("--master", url)?;
    }
    Ok(config)
}

/// A token file that a person wrote ends with a line end, which kube would send. Its own way to read the file anew every minute is
/// for those that programs write; this token is read anew when the server no longer takes it.
fn trim_token(config: &mut Config) {
    let auth = &mut config.auth_info;
    let Some(text) = auth.token_file.as_ref().and_then(|file| std::fs::read_to_string(file).ok()) else {
        return;
    };
    if text.trim() != text {
        auth.token = Some(text.trim().to_owned().into());
        auth.token_file = None;
    }
}

fn uri(what: &str, url: &str) -> Result<http::Uri, Failure> {
    let parsed = url.parse::<http::Uri>().ok().filter(|uri| uri.host().is_some());
    let parsed = parsed.filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
    parsed.ok_or_else(|| {
        Failure::Access(format!("`{url}` of {what} is no URL: write it as `https://10.0.0.1:6443`"))
    })
}

impl Account {
    /// The account that this Pod is given; `None` where this is no Pod.
    fn of_this_pod() -> Option<Self> {
        let host = std::env::var("KUBERNETES_SERVICE_HOST").ok()?;
        let port = std::env::var("KUBERNETES_SERVICE_PORT").ok()?;
        Some(Self { folder: ACCOUNT_FOLDER.into(), host, port })
    }

    fn config(&self) -> Result<Config, Failure> {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let url = uri("KUBERNETES_SERVICE_HOST", &format!("https://{host}:{}", self.port))?;
        let (token, authority) = (self.folder.join("token"), self.folder.join("ca.crt"));
        for file in [&token, &authority] {
            std::fs::File::open(file).map_err(|error| {
                Failure::Access(format!(
                    "the account of this Pod has no `{}` that can be read: {error}. Its Pod needs `automountServiceAccountToken`",
                    file.display()
                ))
            })?;
        }
        let mut config = Config::new(url);
        config.root_cert_file = Some(authority);
        config.auth_info.token_file = Some(token.display().to_string());
        Ok(config)
    }
}
