//! Who may come, and which answer a request gets.

use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::fault::Fault;
use crate::http::{self, Request, Way};
use crate::list;
use crate::refusal::{refuse, status};
use crate::shared::{CidrApi, Peer, Seen, Shared};
use crate::store::{EVENTS, Resource, SERVICE_CIDRS, SERVICES};
use crate::{events, lock, watch};

/// Answers one request. An error ends the connection.
pub(crate) fn answer(shared: &Shared, peer: &Peer, request: &Request, out: &mut dyn Write) -> io::Result<()> {
    let event = events::place(&request.path);
    let resource = offered(shared, &request.path).or(event.as_ref().map(|_| EVENTS));
    let (query, token) = (request.query.clone(), request.token.clone());
    lock(&shared.seen).push(Seen { at: Instant::now(), resource, query, token });
    if !may_come(shared, peer, request) {
        return refuse(out, 401, "Unauthorized", "Unauthorized", &[]);
    }
    let Some(resource) = resource else {
        return refuse(out, 404, "NotFound", "the server could not find the requested resource", &[]);
    };
    let fault = lock(&shared.faults).take(resource, request);
    let way = match fault {
        None => Way::default(),
        Some(Fault::Cut { after }) => Way { cut_after: Some(after), ..Way::default() },
        Some(Fault::Slow { pause }) => Way { pause: Some(pause), ..Way::default() },
        Some(fault) => return fail(&fault, peer, request, out),
    };
    let verb = match &*request.method {
        "POST" => "create",
        "PATCH" => "patch",
        _ if request.flag("watch") => "watch",
        _ => "list",
    };
    if lock(&shared.forbidden).contains(&(verb, resource)) {
        return refuse(out, 403, "Forbidden", &forbidden(verb, resource), &[]);
    }
    if resource == SERVICES
        && request.parameter("fieldSelector").contains("spec.clusterIP")
        && !lock(&shared.offers).cluster_ip_field
    {
        let message = "Unable to find \"/v1, Resource=services\" that match label selector \"\", field selector \"spec.clusterIP!=None\": field label not supported: spec.clusterIP";
        return refuse(out, 400, "BadRequest", message, &[]);
    }
    if let Some(place) = event {
        return events::answer(shared, place, request, out);
    }
    match verb {
        "watch" => watch::answer(shared, peer, resource, request, out, way),
        _ => list::answer(shared, resource, request, out, way),
    }
}

fn offered(shared: &Shared, path: &str) -> Option<Resource> {
    let offered = lock(&shared.offers).service_cidrs;
    if path == "/apis/networking.k8s.io/v1beta1/servicecidrs" {
        return (offered == CidrApi::Beta).then_some(SERVICE_CIDRS);
    }
    Resource::at(path).filter(|resource| *resource != SERVICE_CIDRS || offered == CidrApi::Stable)
}

fn may_come(shared: &Shared, peer: &Peer, request: &Request) -> bool {
    let by_certificate = peer.has_certificate || !shared.needs_certificate.load(Ordering::Relaxed);
    let tokens = lock(&shared.tokens);
    let by_token =
        tokens.as_ref().is_none_or(|known| request.token.as_ref().is_some_and(|token| known.contains(token)));
    by_certificate && by_token
}

/// The sentence of the real server.
fn forbidden(verb: &str, resource: Resource) -> String {
    format!(
        "{plural}{dot}{group} is forbidden: User \"system:serviceaccount:kube-system:portway\" cannot {verb} resource \
         \"{plural}\" in API group \"{group}\" at the cluster scope",
        plural = resource.plural,
        dot = if resource.group().is_empty() { "" } else { "." },
        group = resource.group()
    )
}

fn fail(fault: &Fault, peer: &Peer, request: &Request, out: &mut dyn Write) -> io::Result<()> {
    match fault {
        Fault::Status { code, retry_after } => {
            let headers: Vec<_> =
                retry_after.iter().map(|seconds| ("Retry-After", seconds.to_string())).collect();
            refuse(out, *code, "Fault", "refused, as the test wanted", &headers)
        }
        Fault::Garbage => http::send(out, 200, &[], b"<html>this is no JSON</html>", Way::default()),
        Fault::NotHttp => {
            out.write_all(&[0x15, 0x03, 0x01, 0x00, 0x02, 0x02, 0x16, b'\n', b'\n'])?;
            Err(io::Error::other("said what is no HTTP, as the test wanted"))
        }
        Fault::GoneEvent => one_line(
            out,
            &format!(
                "{{\"type\":\"ERROR\",\"object\":{}}}\n",
                status(410, "Expired", "too old resource version: 1 (2)")
            ),
        ),
        Fault::BadLine => one_line(out, "{\"type\":\"ADDED\",\"object\":{\"metadata\":\n"),
        Fault::Silence | Fault::HalfLine => {
            if request.flag("watch") {
                http::begin_chunks(out)?;
            }
            if matches!(fault, Fault::HalfLine) {
                http::chunk(out, b"{\"type\":\"ADDED\",", Way::default(), 0)?;
            }
            while peer.is_open() {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(io::Error::other("was silent, as the test wanted"))
        }
        Fault::Hangup | Fault::Cut { .. } | Fault::Slow { .. } => {
            Err(io::Error::other("ends, as the test wanted"))
        }
    }
}

fn one_line(out: &mut dyn Write, line: &str) -> io::Result<()> {
    http::begin_chunks(out)?;
    http::chunk(out, line.as_bytes(), Way::default(), 0)?;
    http::end_chunks(out)
}
