#!/bin/sh
# The first process of a host: node.sh DIRECTORY NAME, in namespaces of its own.
# What it hides is hidden there only, and all that runs there ends with it.
set -eu
directory=$1 name=$2
hostname "$name"
mount -t sysfs sys /sys
mount --bind "$directory/hosts" /etc/hosts
for place in etc/libvirt run var/lib/libvirt var/cache/libvirt var/log/libvirt var/lib/neutron; do
    [ -d "/$place" ] || continue
    mkdir -p "$directory/$place"
    mount --bind "$directory/$place" "/$place"
done
mkdir -p /run/lock /run/netns
ip link set lo up
touch "$directory/ready"
sleep infinity & # the shell waits for it, and meanwhile for all that others leave behind
wait
