//! The addresses of a cluster: a bridge on this machine, and for each node a subnet of Pods behind it.
//!
//! They are taken from ranges to which this machine has no route yet.

use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;

/// The first of the two neighbouring ranges `10.B.0.0/16`, nodes and then Pods, of which the first free
/// pair is taken. Services have 10.202.0.0/16, to which this machine needs no route.
const BASES: [u8; 7] = [200, 208, 216, 224, 232, 240, 248];
/// Routes of this many bits or fewer lead to the world outside; more special ones may be laid over them.
const WIDE: u8 = 8;
const BRIDGE: &str = "kutter0";
/// The last part of the address of node `number` is this and the number.
const BEFORE_NODES: usize = 10;

/// The ranges of one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Network {
    base: u8,
}

impl Network {
    /// The first ranges that nothing on this machine uses.
    ///
    /// # Panics
    /// When all are in use, with the routes that are in the way.
    pub(super) fn free() -> Self {
        let routes = ip("-4 route show table all");
        let free = BASES.map(|base| Self { base }).into_iter().find(|network| network.is_free(&routes));
        free.unwrap_or_else(|| {
            panic!("no two ranges 10.B.0.0/16 and 10.B+1.0.0/16 with B of {BASES:?} are free; the routes are:\n{routes}")
        })
    }

    fn is_free(self, routes: &str) -> bool {
        let ours = [self.range(0), self.range(1)];
        let mut theirs = routes.lines().filter_map(destination).filter(|&(_, bits)| bits > WIDE);
        !theirs.any(|theirs| ours.iter().any(|&ours| overlap(ours, theirs)))
    }

    fn range(self, offset: u8) -> (Ipv4Addr, u8) {
        (Ipv4Addr::new(10, self.base + offset, 0, 0), 16)
    }

    /// The machine's address on the bridge: API server and registry.
    pub(super) fn host(self) -> Ipv4Addr {
        Ipv4Addr::new(10, self.base, 0, 1)
    }

    /// The address of node `number`.
    pub(super) fn node(self, number: usize) -> String {
        format!("10.{}.0.{}", self.base, BEFORE_NODES + number)
    }

    /// The range of all Pods.
    pub(super) fn pods(self) -> String {
        format!("10.{}.0.0/16", self.base + 1)
    }

    /// The range of the Pods of node `number`.
    pub(super) fn pods_of(self, number: usize) -> String {
        format!("10.{}.{number}.0/24", self.base + 1)
    }

    /// The first port from `first` on at which nothing listens on the machine's side of the bridge.
    ///
    /// # Panics
    /// When a hundred ports are in use.
    pub(super) fn free_port(self, first: u16) -> u16 {
        self.listen(first).local_addr().expect("a listener has an address").port()
    }

    /// Listens at the first port from `first` on at which nothing else does.
    ///
    /// # Panics
    /// As [`free_port`](Self::free_port).
    pub(super) fn listen(self, first: u16) -> TcpListener {
        let mut ports = first..first + 100;
        let listener = ports.find_map(|port| TcpListener::bind((self.host(), port)).ok());
        listener.unwrap_or_else(|| panic!("no port from {first} on is free at {}", self.host()))
    }

    /// Makes the bridge.
    pub(super) fn bridge(self) {
        ip(&format!("link add {BRIDGE} type bridge"));
        ip(&format!("address add {}/24 dev {BRIDGE}", self.host()));
        ip(&format!("link set {BRIDGE} up"));
    }

    /// A network namespace on the bridge for node `number` of `count`, with routes to the Pods of the
    /// other nodes.
    pub(super) fn connect(self, namespace: &str, number: usize, count: usize) {
        let link = format!("kutter-v{number}");
        ip(&format!("netns add {namespace}"));
        ip(&format!("link add {link} type veth peer name eth0 netns {namespace}"));
        ip(&format!("link set {link} master {BRIDGE} up"));
        ip(&format!("-netns {namespace} address add {}/24 dev eth0", self.node(number)));
        ip(&format!("-netns {namespace} link set lo up"));
        ip(&format!("-netns {namespace} link set eth0 up"));
        // Service addresses need some route before they are rewritten.
        ip(&format!("-netns {namespace} route add default via {}", self.host()));
        ip(&format!("route add {} via {}", self.pods_of(number), self.node(number)));
        for other in (1..=count).filter(|&other| other != number) {
            ip(&format!("-netns {namespace} route add {} via {}", self.pods_of(other), self.node(other)));
        }
    }
}

/// The name of the node that has this address, on its own side of the bridge.
pub(super) fn node_name(address: Ipv4Addr) -> String {
    let [.., last] = address.octets();
    format!("node-{}", usize::from(last) - BEFORE_NODES)
}

/// The range that a line of `ip route` leads to; `None` for the default route.
fn destination(route: &str) -> Option<(Ipv4Addr, u8)> {
    let range =
        route.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()))?;
    let (address, bits) = range.split_once('/').unwrap_or((range, "32"));
    let is_default = route.starts_with("default");
    (!is_default).then_some((address.parse().ok()?, bits.parse().ok()?))
}

fn overlap(one: (Ipv4Addr, u8), other: (Ipv4Addr, u8)) -> bool {
    let bits = u32::from(one.1.min(other.1));
    let start = |address: Ipv4Addr| address.to_bits().checked_shr(32 - bits).unwrap_or(0);
    start(one.0) == start(other.0)
}

fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("ip runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_with_a_route_are_passed_over() {
        let cases = [
            ("default via 192.0.2.1 dev eth0", true),
            ("default via 10.200.0.9 dev eth0", true),
            ("10.0.0.0/8 via 192.0.2.7 dev vpn0", true),
            ("192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.2", true),
            ("10.202.0.0/16 dev eth0", true),
            ("10.201.1.0/24 via 192.0.2.9 dev eth0", false),
            ("blackhole 10.200.3.0/24", false),
            ("local 10.201.0.7 dev eth0 table local proto kernel scope host src 10.201.0.7", false),
            ("10.192.0.0/10 dev eth0", false),
        ];
        for (route, is_free) in cases {
            let routes = format!("192.168.0.0/24 dev eth1\n{route}\n");
            assert_eq!(Network { base: 200 }.is_free(&routes), is_free, "{route}");
        }
        assert!(Network { base: 208 }.is_free("10.201.1.0/24 via 192.0.2.9 dev eth0"));
    }
}
