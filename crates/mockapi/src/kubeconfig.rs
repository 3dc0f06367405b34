//! Files by which a client finds its way to the server.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use crate::server::MockApi;

/// Who comes.
#[derive(Clone, Debug)]
pub enum User {
    /// Nobody in particular.
    Nobody,
    /// With this token.
    Token(String),
    /// With the token in this file.
    TokenFile(PathBuf),
    /// With the certificate that the server's authority gave.
    Certificate,
    /// With what this program prints.
    Exec(PathBuf),
}

/// Writes a kubeconfig, and what belongs to it, into a folder. Returns its path.
pub fn kubeconfig(server: &MockApi, user: &User, folder: &Path) -> io::Result<PathBuf> {
    let mut cluster = format!("    server: {}\n", server.url());
    if let Some(certificates) = server.certificates() {
        std::fs::write(folder.join("ca.crt"), &certificates.authority)?;
        std::fs::write(folder.join("client.crt"), &certificates.client)?;
        std::fs::write(folder.join("client.key"), &certificates.client_key)?;
        // Writing to a string cannot fail.
        let _ = writeln!(cluster, "    certificate-authority: {}", folder.join("ca.crt").display());
    }
    let path = folder.join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: test\ncontexts:\n- name: test\n  context: {{cluster: test, user: test}}\n\
         clusters:\n- name: test\n  cluster:\n{cluster}users:\n- name: test\n  user:\n{}",
        credentials(user, folder)
    );
    std::fs::write(&path, text)?;
    Ok(path)
}

fn credentials(user: &User, folder: &Path) -> String {
    match user {
        User::Nobody => "    {}\n".to_owned(),
        User::Token(token) => format!("    token: {token}\n"),
        User::TokenFile(file) => format!("    tokenFile: {}\n", file.display()),
        User::Certificate => format!(
            "    client-certificate: {}\n    client-key: {}\n",
            folder.join("client.crt").display(),
            folder.join("client.key").display()
        ),
        User::Exec(program) => format!(
            "    exec:\n      apiVersion: client.authentication.k8s.io/v1\n      interactiveMode: Never\n      command: {}\n",
            program.display()
        ),
    }
}
