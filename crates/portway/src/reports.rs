//! What is wrong, by the Service that it concerns.

use std::collections::BTreeMap;

use model::Report;
use observe::picture::Picture;
use standalone::objects::{Kind, ObjectKey};

use super::check::in_order;
use super::kube;

/// What is wrong with each Service and with its slices. Made once: each look at a picture's reports is one at all of them.
#[derive(Debug)]
pub(super) struct Reports<'a>(BTreeMap<String, Vec<&'a Report>>);

impl<'a> Reports<'a> {
    /// Those of a picture.
    pub(super) fn of(picture: &'a Picture) -> Self {
        let mut by_service: BTreeMap<String, Vec<&Report>> = BTreeMap::new();
        for report in picture.reports() {
            if let Some(service) = service_of(picture, report) {
                by_service.entry(service).or_default().push(report);
            }
        }
        for reports in by_service.values_mut() {
            in_order(reports);
        }
        Self(by_service)
    }

    /// Those on the Service of this name, `namespace/name`, in the order of fields.
    pub(super) fn about(&self, service: &str) -> &[&'a Report] {
        self.0.get(service).map_or(&[], Vec::as_slice)
    }
}

/// The Service that a report speaks of, itself or by one of its slices.
fn service_of(picture: &Picture, report: &Report) -> Option<String> {
    let (namespace, name) = report.object.name.split_once('/')?;
    match Kind::parse(report.object.kind)? {
        Kind::Service => Some(report.object.name.to_string()),
        kind @ Kind::EndpointSlice => {
            let key = ObjectKey { kind, namespace: namespace.into(), name: name.into() };
            let service = kube::service_of_slice(&picture.objects().get(&key)?.value)?;
            Some(format!("{namespace}/{service}"))
        }
        Kind::Pod | Kind::Node | Kind::ServiceCidr => None,
    }
}
