//! Errors of libraries, in words for the person who has to put them right: what, in which file or at which server, and the way out.
//!
//! Absent on purpose: which of them may pass by itself. All are tried again.

use std::fs::File;

use crate::tls::IS_AUTHORITY;
use kube::config::{AuthInfo, Kubeconfig, KubeconfigError, LoadDataError};

/// What is wrong with a kubeconfig, to be read after its name.
pub(crate) fn of_kubeconfig(error: &KubeconfigError, contexts: &[String]) -> String {
    use KubeconfigError as Wrong;
    match error {
        Wrong::ReadConfig(error, _) => format!("{error}. Name a file that this user may read"),
        Wrong::Parse(error) => format!("it is no kubeconfig: {error}"),
        Wrong::CurrentContextNotSet => {
            "it has no `current-context`: write there which of `contexts` to use".into()
        }
        Wrong::LoadContext(name) => format!(
            "its `current-context` is `{name}`, and no context has that name: it has {}",
            listed(contexts)
        ),
        Wrong::LoadClusterOfContext(name) => {
            format!("its context leads to the cluster `{name}`, which is not in `clusters`: add it there")
        }
        Wrong::MissingClusterUrl => {
            "its cluster has no `server`: write the URL of the API server there".into()
        }
        Wrong::ParseClusterUrl(error) => {
            format!("the `server` of its cluster is no URL ({error}): write it as `https://10.0.0.1:6443`")
        }
        Wrong::LoadCertificateAuthority(error) => of_data("certificate-authority", error),
        Wrong::LoadClientCertificate(error) => of_data("client-certificate", error),
        Wrong::LoadClientKey(error) => of_data("client-key", error),
        Wrong::ParseCertificates(error) => {
            format!("its `certificate-authority` is no certificate in PEM: {error}")
        }
        other => other.to_string(),
    }
}

/// The names of the contexts of a kubeconfig.
pub(crate) fn contexts(file: &Kubeconfig) -> Vec<String> {
    file.contexts.iter().map(|context| context.name.clone()).collect()
}

fn listed(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "none at all".to_owned() } else { names.join(", ") }
}

fn of_data(field: &str, error: &LoadDataError) -> String {
    match error {
        LoadDataError::ReadFile(error, path) => unreadable(field, &path.display().to_string(), error),
        LoadDataError::DecodeBase64(error) => format!("its `{field}-data` is no base64: {error}"),
        LoadDataError::NoBase64DataOrFile => {
            format!("its user has no `{field}`: a certificate and its key go together")
        }
    }
}

/// The first file of an account that cannot be read, to be read after the name of the kubeconfig.
pub(crate) fn unreadable_file(account: &AuthInfo) -> Option<String> {
    let files = [
        ("client-certificate", &account.client_certificate),
        ("client-key", &account.client_key),
        ("tokenFile", &account.token_file),
    ];
    files.into_iter().find_map(|(field, file)| {
        let file = file.as_ref()?;
        File::open(file).err().map(|error| unreadable(field, file, &error))
    })
}

fn unreadable(field: &str, file: &str, error: &std::io::Error) -> String {
    format!(
        "its `{field}` is the file `{file}`, which cannot be read: {error}. Allow this user to read it, or name another"
    )
}

/// What a failed connection means where certificates are the reason. Libraries tell it in words alone, so it is found by those.
pub(crate) fn of_connection(said: String, trusted: &str) -> String {
    let has = |word: &&str| said.contains(*word);
    // An authority that was made anew has the same name, and another key.
    if ["UnknownIssuer", "BadSignature"].iter().any(has) {
        return format!(
            "its certificate is not from the authority in {trusted}: if this is our server, put its authority there ({said})"
        );
    }
    if has(&IS_AUTHORITY) {
        return format!(
            "its certificate is an authority's (CA:TRUE, as plain `openssl req -x509` makes it). It is accepted only where {trusted} has this \
             very certificate, and it has the host of the server's URL as a subjectAltName: put it there, or make the server a \
             certificate with `basicConstraints=CA:FALSE` ({said})"
        );
    }
    match WAYS_OUT.iter().find(|(word, _)| has(word)) {
        Some((_, way_out)) => format!("{way_out} ({said})"),
        None => said,
    }
}

const WAYS_OUT: [(&str, &str); 6] = [
    (
        "UnsupportedCertVersion",
        "a certificate is of X.509 version 1, the client's or the server's: make it anew as version 3, with any extension",
    ),
    (
        "certificate expired",
        "its certificate has expired: renew it on the server; or the clock of this host is wrong",
    ),
    (
        "not valid yet",
        "its certificate is not valid yet: the clock of this host, or that of the server's authority, is wrong",
    ),
    (
        "not valid for name",
        "its certificate is for other names: use one of those in its URL, or `tls-server-name` in the kubeconfig",
    ),
    (
        "received fatal alert",
        "it does not accept our certificate: renew it where it lies, and see that the server knows its authority",
    ),
    ("InvalidContentType", "it does not speak TLS: is it `http`, or another port?"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_told_with_the_way_out_and_the_rest_as_it_is() {
        let say = |said: &str| of_connection(said.to_owned(), "`ca.crt`");
        assert_eq!(
            say("invalid peer certificate: UnknownIssuer"),
            "its certificate is not from the authority in `ca.crt`: if this is our server, put its authority there \
             (invalid peer certificate: UnknownIssuer)"
        );
        assert!(
            say("certificate expired: verification time 7").starts_with("its certificate has expired: renew")
        );
        assert_eq!(say("connection refused"), "connection refused");
    }
}
