# Process 1 of a node, inside its network, mount and process namespaces. $1 is the node's directory,
# $2 the kubeconfig, $3 the node's name, $4 its address, $5 and $6 kube-proxy and kubelet,
# $7 the addresses of all Pods.
set -e
# Mounts that the kubelet makes must reach the containers.
mount --make-rshared /
echo 1 >/proc/sys/net/ipv4/ip_forward
# State in the places of an ordinary machine, each node its own.
for place in /var/lib/kubelet /var/lib/containerd /var/lib/cni /var/lib/kruise-daemon /var/log; do
    mkdir -p "$place" "$1$place"
    mount --bind "$1$place" "$place"
done
mount -t tmpfs tmpfs /run
# Like a service manager: it starts again what has been killed, but not what never came up.
while containerd --config "$1/containerd.toml" >>"$1/containerd.log" 2>&1 || [ -S /run/containerd/containerd.sock ]; do
    sleep 0.1
done &
until [ -S /run/containerd/containerd.sock ]; do
    kill -0 $!
    sleep 0.05
done
"$5" --kubeconfig "$2" --hostname-override "$3" --proxy-mode iptables --cluster-cidr "$7" \
    --conntrack-max-per-core 0 --conntrack-tcp-timeout-established 0 --conntrack-tcp-timeout-close-wait 0 \
    >"$1/kube-proxy.log" 2>&1 &
"$6" --config "$1/kubelet.yaml" --kubeconfig "$2" --hostname-override "$3" --node-ip "$4" \
    --cert-dir "$1/certificates" >"$1/kubelet.log" 2>&1 &
# The shell stays, to collect orphans; the node ends with its kubelet.
wait $!
