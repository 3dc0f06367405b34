//! `get endpointslices`: NAME ADDRESSTYPE PORTS ENDPOINTS AGE, as kubectl shows them.

use serde_json::Value;

use super::Style;
use crate::cli::age;
use crate::cli::kube::{first_three, items, joined, shown, text, texts};
use crate::cli::table::Table;
use crate::cli::view::View;
use crate::objects::Object;

/// The `EndpointSlices`.
pub(super) fn table(view: &View, slices: &[&Object], style: Style) -> Table {
    let mut table = style.table(&["NAME", "ADDRESSTYPE", "PORTS", "ENDPOINTS", "AGE"], &[]);
    for slice in slices {
        let value = &slice.value;
        let endpoints = items(value, "endpoints").iter().flat_map(|endpoint| texts(endpoint, "addresses"));
        let endpoints: Vec<&str> = endpoints.collect();
        let usual = [
            slice.key.name.to_string(),
            text(value, "addressType").unwrap_or("<unset>").to_owned(),
            ports(value),
            if style.is_wide { joined(&endpoints) } else { first_three(&endpoints) },
            age::of(value, view.now),
        ];
        table.push(style.row(slice, usual, []));
    }
    table
}

fn ports(slice: &Value) -> String {
    let number = |port: &Value| port.get("port").map_or_else(|| "*".to_owned(), shown);
    let ports: Vec<String> = items(slice, "ports").iter().map(number).collect();
    if ports.is_empty() { "<unset>".to_owned() } else { joined(&ports) }
}
