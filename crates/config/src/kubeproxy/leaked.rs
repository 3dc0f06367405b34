//! Flags of libraries that upstream's kube-proxy once showed as its own: cAdvisor's, those of cloud providers and of the API server.
//!
//! They never did anything in kube-proxy, but command lines still carry them, so they are taken and told of. They stand apart from the
//! table of flags since they are of one sort: neither the help nor the nearest-name hint offers them, and the parity page has one row.

use super::flags::{Flag, alone, obsolete};

const fn leaked(name: &'static str) -> Flag {
    obsolete(name, "it was never kube-proxy's: leave it out")
}

/// All of them.
pub const LEAKED: &[Flag] = &[
    alone(leaked("allow-dynamic-housekeeping")),
    leaked("application-metrics-count-limit"),
    leaked("azure-container-registry-config"),
    leaked("boot-id-file"),
    leaked("cloud-provider-gce-l7lb-src-cidrs"),
    leaked("cloud-provider-gce-lb-src-cidrs"),
    leaked("container-hints"),
    leaked("containerd"),
    leaked("containerd-namespace"),
    leaked("default-not-ready-toleration-seconds"),
    leaked("default-unreachable-toleration-seconds"),
    leaked("docker"),
    leaked("docker-env-metadata-whitelist"),
    alone(leaked("docker-only")),
    leaked("docker-root"),
    alone(leaked("docker-tls")),
    leaked("docker-tls-ca"),
    leaked("docker-tls-cert"),
    leaked("docker-tls-key"),
    alone(leaked("enable-load-reader")),
    leaked("event-storage-age-limit"),
    leaked("event-storage-event-limit"),
    leaked("global-housekeeping-interval"),
    leaked("google-json-key"),
    leaked("housekeeping-interval"),
    alone(leaked("log-cadvisor-usage")),
    leaked("machine-id-file"),
    leaked("storage-driver-buffer-duration"),
    leaked("storage-driver-db"),
    leaked("storage-driver-host"),
    leaked("storage-driver-password"),
    alone(leaked("storage-driver-secure")),
    leaked("storage-driver-table"),
    leaked("storage-driver-user"),
];
