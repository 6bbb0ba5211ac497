#!/bin/sh
# The first process of a hypervisor of the lab: hypervisor.sh DIRECTORY NAME ADDRESS/PREFIX SSHD
# It runs in namespaces of its own and dies with them; what it hides is hidden there only.
set -eu
directory=$1 name=$2 address=$3 sshd=$4
hostname "$name"
mount -t sysfs sys /sys
mount -t tmpfs tmpfs /dev/shm # with locks of its own
for file in hosts shadow; do mount --bind "$directory/$file" "/etc/$file"; done
for place in etc/libvirt run var/lib/libvirt var/cache/libvirt var/log/libvirt; do
    mkdir -p "$directory/$place"
    mount --bind "$directory/$place" "/$place"
done
mkdir -p /run/sshd /var/lib/libvirt/dnsmasq # which the packages of libvirt bring
ip link set lo up
ip link add br-lan type bridge
ip address add "$address" dev br-lan
ip link set br-lan up
echo ready
exec >"$directory/log" 2>&1
virtlogd &
"$sshd" -D -e -f "$directory/sshd_config" &
libvirtd &
wait
