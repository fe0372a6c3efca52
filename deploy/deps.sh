#!/bin/sh
# Installs the Debian packages that are missing, naming them first.
#
# usage: deploy/deps.sh demo|test
#
# Installing openvswitch-switch would start a switch on this machine. Fabric's lab has
# switches of its own, so services are kept from starting while packages are installed,
# and those that came with them are disabled.
set -eu

demo="build-essential openvswitch-switch iproute2 ethtool nftables iputils-ping procps"
test="$demo openvswitch-testcontroller iputils-arping tcpdump iperf3 netcat-openbsd containernetworking-plugins dnsmasq-base"

case "${1:-}" in
demo) wanted=$demo ;;
test) wanted=$test ;;
*)
    echo "usage: $0 demo|test" >&2
    exit 2
    ;;
esac

missing=""
for package in $wanted; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

echo "Debian packages to install:$missing"
if [ "$(id -u)" != 0 ]; then
    echo "installing packages needs root: run this with sudo" >&2
    exit 3
fi

policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 130' INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi

export DEBIAN_FRONTEND=noninteractive
apt-get update -q
# shellcheck disable=SC2086 # one word for each package
apt-get install -y -q --no-install-recommends $missing

for service in openvswitch-switch openvswitch-testcontroller iperf3; do
    case "$missing " in
    *" $service "*)
        if [ -d /run/systemd/system ]; then
            systemctl disable --quiet "$service" 2>/dev/null || true
            echo "$service is installed and not enabled: the lab starts its own"
        fi
        ;;
    esac
done
