//! Services, slices and Nodes to put, complete as the real server would send them.

use serde_json::{Value, json};

/// A Service `default/NAME` with this cluster IP and the TCP port 80.
pub fn service(name: &str, cluster_ip: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-of-{name}"),
            "creationTimestamp": "2026-01-31T12:00:00Z", "labels": {"app": name},
            "managedFields": [{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:ports": {}}}}]
        },
        "spec": {
            "type": "ClusterIP", "clusterIP": cluster_ip, "clusterIPs": [cluster_ip], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster", "sessionAffinity": "None",
            "selector": {"app": name},
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}]
        },
        "status": {"loadBalancer": {}}
    })
}

/// A slice `default/SERVICE-1` of this Service, with an endpoint per address.
pub fn slice(service: &str, addresses: &[&str]) -> Value {
    let endpoints: Vec<Value> =
        addresses.iter().enumerate().map(|(index, address)| endpoint(service, index, address)).collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": format!("{service}-1"), "namespace": "default", "generateName": format!("{service}-"),
            "creationTimestamp": "2026-01-31T12:00:00Z",
            "labels": {"kubernetes.io/service-name": service, "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"},
            "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": {"f:endpoints": {}}}]
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]
    })
}

fn endpoint(service: &str, index: usize, address: &str) -> Value {
    json!({
        "addresses": [address],
        "conditions": {"ready": true, "serving": true, "terminating": false},
        "nodeName": "b",
        "targetRef": {"kind": "Pod", "namespace": "default", "name": format!("{service}-{index}")},
        "zone": "z1"
    })
}

/// A Node with this internal address.
pub fn node(name: &str, address: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "creationTimestamp": "2026-01-31T12:00:00Z", "labels": {"topology.kubernetes.io/zone": "z1"}},
        "spec": {"podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24"]},
        "status": {"addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}]}
    })
}

/// A ServiceCIDR with this range.
pub fn service_cidr(name: &str, range: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": name, "creationTimestamp": "2026-01-31T12:00:00Z"},
        "spec": {"cidrs": [range]}
    })
}
