#!/usr/bin/env bash
# Attaches and detaches containers with libcni's cnitool, in every version of CNI that Fabric speaks.
#
#   tests/peers/cnitool.sh CNI_BIN_DIR AGENT_SOCKET [NODE_NAMESPACE]
#
# CNI_BIN_DIR holds fabric-cni, AGENT_SOCKET is where a running agent listens, NODE_NAMESPACE is the network
# namespace (of `ip netns`) in which that agent runs; without it, this one. CNI_ARGS is passed on: set
# "IgnoreUnknown=1;K8S_POD_NAMESPACE=...;K8S_POD_NAME=..." where the agent wants to know the pod.
# Needs root, Go 1.21 or later and iproute2. Leaves nothing behind.
set -euo pipefail

if [[ $# -lt 2 || $# -gt 3 ]]; then
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
bin=$(realpath "$1")
socket=$2
node=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
spaces=()

cleanup() {
    local space
    for space in "${spaces[@]}"; do
        ip netns del "$space" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap cleanup EXIT

fail() {
    echo "cnitool: $*" >&2
    exit 1
}

[[ $(id -u) == 0 ]] || fail "this makes network namespaces: run it as root"
[[ -x $bin/fabric-cni ]] || fail "$bin has no fabric-cni"

(cd "$here/cni" && go build -o "$work/gc" . && go build -o "$work/cnitool" github.com/containernetworking/cni/cnitool)
mkdir "$work/cache"

# Runs a program where the runtime of the node would run it, with a cache of its own in place of /var/lib/cni.
on_node() {
    local enter=()
    [[ -z $node ]] || enter=(ip netns exec "$node")
    mkdir -p /var/lib/cni
    CNI_PATH=$bin NETCONFPATH=$work/$version CNI_IFNAME=eth0 \
        "${enter[@]}" unshare -m sh -c 'mount --bind "$0" /var/lib/cni && exec "$@"' "$work/cache" "$@"
}

cnitool() {
    on_node "$work/cnitool" "$1" fabric "/run/netns/$2"
}

# cnitool derives the container's id from the path of its namespace.
container() {
    printf 'cnitool-%s' "$(printf '/run/netns/%s' "$1" | sha512sum | cut -c 1-20)"
}

space() {
    local name=fabric-peer-$$-$1
    ip netns add "$name"
    spaces+=("$name")
    made=$name
}

configure() {
    mkdir "$work/$version"
    cat >"$work/$version/10-fabric.conflist" <<CONF
{
  "cniVersion": "$version",
  "name": "fabric",
  "plugins": [{ "type": "fabric-cni", "socket": "$socket" }]
}
CONF
}

has_interface() {
    ip -n "$1" link show eth0 >/dev/null 2>&1
}

expect_failure() {
    local words=$1 output
    shift
    if output=$("$@" 2>&1); then
        fail "$version: expected '$words', but '$*' succeeded"
    fi
    [[ $output == *"$words"* ]] || fail "$version: expected '$words', got: $output"
}

check_result() {
    local result=$1 pattern
    for pattern in "\"cniVersion\": \"$version\"" '"name": "eth0"' "\"sandbox\": \"/run/netns/$2\"" '"address": "'; do
        [[ $result == *"$pattern"* ]] || fail "$version: no $pattern in the result: $result"
    done
    local address there
    there=$(ip -n "$2" addr show eth0)
    for address in $(sed -n 's/.*"address": "\([^"]*\)".*/\1/p' <<<"$result"); do
        [[ $there == *" $address "* ]] || fail "$version: $address is not on eth0: $there"
    done
}

for version in 0.3.1 0.4.0 1.0.0 1.1.0; do
    configure
    space "$version"
    cnitool status "$made" || fail "$version: STATUS"
    result=$(cnitool add "$made") || fail "$version: ADD"
    check_result "$result" "$made"
    if [[ $version == 0.3.1 ]]; then
        expect_failure "does not support the CHECK command" cnitool check "$made"
    else
        cnitool check "$made" || fail "$version: CHECK"
        ip -n "$made" link set eth0 address 02:00:00:00:00:01
        expect_failure "hardware address" cnitool check "$made"
    fi
    cnitool del "$made" || fail "$version: DEL"
    ! has_interface "$made" || fail "$version: eth0 is still there after DEL"
    cnitool del "$made" || fail "$version: a second DEL"
    echo "cnitool: CNI $version: ADD, CHECK, DEL, STATUS as they should be"
done

# GC is of 1.1.0: one attachment is named as in use and stays, the other goes.
space kept
kept=$made
space stale
stale=$made
cnitool add "$kept" >/dev/null
cnitool add "$stale" >/dev/null
on_node "$work/gc" "$work/1.1.0/10-fabric.conflist" "$bin" "$(container "$kept")/eth0" || fail "GC"
has_interface "$kept" || fail "GC removed an attachment in use"
! has_interface "$stale" || fail "GC left a stale attachment"
cnitool check "$kept" || fail "CHECK after GC"
# Without the list GC would remove everything: Fabric refuses. What cnitool has in its cache it detaches itself.
expect_failure "cni.dev/valid-attachments is missing" cnitool gc "$kept"
! has_interface "$kept" || fail "cnitool's gc detaches what is in its cache"
echo "cnitool: GC as it should be"
