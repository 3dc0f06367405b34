//! Where `portway run` answers by HTTP: options, and what they mean.

use std::net::{IpAddr, SocketAddr};

use clap::Args;
use config::ListenOptions;
use model::net::parse_ip;

use super::values::Sentence;

const HEADING: &str = "Who may ask by HTTP";

const HEALTHZ_PORT: u16 = 10256;
const METRICS_PORT: u16 = 10249;

/// The options.
#[derive(Args, Clone, Debug)]
pub(super) struct ServeArgs {
    /// Where `/healthz` and `/livez` answer; empty: nowhere [default: 0.0.0.0:10256, and nowhere with `--from`]
    #[arg(long, value_name = "IP[:PORT]", value_parser = Sentence(healthz), help_heading = HEADING)]
    healthz_bind_address: Option<At>,

    /// Where `/metrics` answers, and `/state`, `/configz`, `/statusz`, `/flagz`, `/proxyMode`; empty: nowhere [default:
    /// 127.0.0.1:10249, and nowhere with `--from`]
    #[arg(long, value_name = "IP[:PORT]", value_parser = Sentence(metrics), help_heading = HEADING)]
    metrics_bind_address: Option<At>,

    /// End where one of these ports cannot be had, instead of trying again
    #[arg(long, help_heading = HEADING)]
    bind_address_hard_fail: bool,
}

impl ServeArgs {
    /// What was chosen, here or in a document. Without a cluster nobody asks, so nothing is opened that was not asked for.
    pub(super) fn options(&self, of_document: Option<&ListenOptions>, is_in_cluster: bool) -> ListenOptions {
        let in_cluster = ListenOptions {
            healthz: Some(([0, 0, 0, 0], HEALTHZ_PORT).into()),
            metrics: Some(([127, 0, 0, 1], METRICS_PORT).into()),
            hard_fail: false,
        };
        let usual =
            of_document.cloned().unwrap_or(if is_in_cluster { in_cluster } else { ListenOptions::default() });
        ListenOptions {
            healthz: self.healthz_bind_address.map_or(usual.healthz, |At(at)| at),
            metrics: self.metrics_bind_address.map_or(usual.metrics, |At(at)| at),
            hard_fail: self.bind_address_hard_fail || usual.hard_fail,
        }
    }
}

/// An address with its port; `None` for nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct At(Option<SocketAddr>);

fn healthz(text: &str) -> Result<At, String> {
    at(text, HEALTHZ_PORT)
}

fn metrics(text: &str) -> Result<At, String> {
    at(text, METRICS_PORT)
}

/// `0.0.0.0:10256`, `[::]:10256`, or an address alone, which gets the usual port.
fn at(text: &str, usual: u16) -> Result<At, String> {
    if text.is_empty() {
        return Ok(At(None));
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let alone = parse_ip(bare).map(|ip: IpAddr| SocketAddr::new(ip, usual));
    let with_port = text.parse::<SocketAddr>().ok().filter(|at| at.port() > 0);
    alone.or(with_port).map(|at| At(Some(at))).ok_or_else(|| {
        format!("`{text}` is no address to listen at: write it as `127.0.0.1:{usual}` or `[::1]:{usual}`, or leave it empty")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_go_without_its_port_and_nothing_is_nowhere() {
        let read = |text| healthz(text).map(|At(at)| at.map(|at| at.to_string()));
        assert_eq!(read("0.0.0.0"), Ok(Some("0.0.0.0:10256".into())));
        assert_eq!(read("::1"), Ok(Some("[::1]:10256".into())));
        assert_eq!(read("[::]"), Ok(Some("[::]:10256".into())));
        assert_eq!(read("127.0.0.1:80"), Ok(Some("127.0.0.1:80".into())));
        assert_eq!(read("[::1]:80"), Ok(Some("[::1]:80".into())));
        assert_eq!(read(""), Ok(None));
        for bad in ["localhost:80", "127.0.0.1:0", "127.0.0.1:", ":80", "80"] {
            assert!(read(bad).unwrap_err().starts_with(&format!("`{bad}`")), "{bad}");
        }
    }

    #[test]
    fn without_a_cluster_nothing_is_opened_that_was_not_asked_for() {
        let none = ServeArgs {
            healthz_bind_address: None,
            metrics_bind_address: None,
            bind_address_hard_fail: false,
        };
        assert_eq!(none.options(None, false), ListenOptions::default());
        let usual = none.options(None, true);
        assert_eq!(usual.healthz.map(|at| at.to_string()), Some("0.0.0.0:10256".into()));
        assert_eq!(usual.metrics.map(|at| at.to_string()), Some("127.0.0.1:10249".into()));
        let off = ServeArgs { healthz_bind_address: Some(At(None)), ..none };
        assert_eq!(off.options(None, true).healthz, None);
        let document = ListenOptions { hard_fail: true, ..ListenOptions::default() };
        assert_eq!(off.options(Some(&document), true), document, "a document goes before the defaults");
    }
}
