//! How traffic reaches the Pods of a release: the fields that Rollouts and TrafficRoutings have in common.

use serde::{Deserialize, Serialize};

/// Seconds that the network gets to follow a change where nothing else is said.
const DEFAULT_GRACE_PERIOD: i32 = 3;
/// The class of Ingresses that say nothing else.
const DEFAULT_CLASS: &str = "nginx";

objects! {
    /// A Service, and the network objects that lead to it. All that are set are changed.
    pub struct TrafficRoutingRef {
        /// Objects of other kinds, which are changed by scripts.
        pub custom_network_refs: Vec<CustomNetworkRef>,
        /// An HTTPRoute of the Gateway API that leads to the Service.
        pub gateway: Option<GatewayRef>,
        /// Seconds that the network gets to follow a change before the next one. Default 3.
        pub grace_period_seconds: Option<i32>,
        /// An Ingress that leads to the Service.
        pub ingress: Option<IngressRef>,
        /// The name of the Service that selects the Pods of the workload.
        required pub service: String,
    }

    /// An Ingress that leads to the Service.
    pub struct IngressRef {
        /// What serves the Ingress: nginx, aliyun-alb, mse, higress, or a class for which there is a script. Default
        /// nginx.
        pub class_type: String,
        /// The name of the Ingress.
        required pub name: String,
    }

    /// An HTTPRoute of the Gateway API that leads to the Service.
    pub struct GatewayRef {
        /// The name of the HTTPRoute.
        pub http_route_name: String,
    }

    /// A network object that a script changes.
    pub struct CustomNetworkRef {
        /// The API group and version of the object.
        required pub api_version: String,
        /// The kind of the object.
        required pub kind: String,
        /// The name of the object.
        required pub name: String,
    }

    /// A condition on requests: all its parts must hold.
    pub struct HttpRouteMatch {
        /// Headers that the request must have.
        pub headers: Vec<HeaderMatch>,
        /// The path that the request must have.
        pub path: Option<PathMatch>,
        /// Query parameters that the request must have.
        pub query_params: Vec<QueryParamMatch>,
    }

    /// The path that a request must have.
    pub struct PathMatch {
        /// How the path is compared. Default PathPrefix.
        #[serde(rename = "type")]
        pub kind: Option<PathMatchType>,
        /// What the path is compared with. Default "/".
        pub value: Option<String>,
    }

    /// A header that a request must have.
    pub struct HeaderMatch {
        /// How the value is compared. Default Exact.
        #[serde(rename = "type")]
        pub kind: Option<ValueMatchType>,
        /// The name of the header, in any case.
        required pub name: String,
        /// What the value is compared with.
        required pub value: String,
    }

    /// A query parameter that a request must have.
    pub struct QueryParamMatch {
        /// How the value is compared. Default Exact.
        #[serde(rename = "type")]
        pub kind: Option<ValueMatchType>,
        /// The name of the parameter.
        required pub name: String,
        /// What the value is compared with.
        required pub value: String,
    }

    /// Changes to the headers of requests.
    pub struct HeaderModifier {
        /// Headers to add to those that the request has.
        pub add: Vec<HttpHeader>,
        /// The names of headers to remove.
        pub remove: Vec<String>,
        /// Headers to set in place of those that the request has.
        pub set: Vec<HttpHeader>,
    }

    /// A header of a request.
    pub struct HttpHeader {
        /// The name of the header, in any case.
        required pub name: String,
        /// The value of the header.
        required pub value: String,
    }
}

impl TrafficRoutingRef {
    /// Seconds that the network gets to follow a change before the next one.
    pub fn grace_period(&self) -> i32 {
        self.grace_period_seconds.unwrap_or(DEFAULT_GRACE_PERIOD)
    }
}

impl IngressRef {
    /// What serves the Ingress.
    pub fn class(&self) -> &str {
        if self.class_type.is_empty() { DEFAULT_CLASS } else { &self.class_type }
    }
}

/// How a path is compared.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum PathMatchType {
    /// The whole path is equal.
    Exact,
    /// The path begins with these elements.
    PathPrefix,
    /// The path matches a regular expression.
    RegularExpression,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}

/// How the value of a header or of a query parameter is compared.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum ValueMatchType {
    /// It is equal.
    Exact,
    /// It matches a regular expression.
    RegularExpression,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}
