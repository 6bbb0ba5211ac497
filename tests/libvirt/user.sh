#!/bin/sh
# Runs a program as a plain user of a hypervisor: user.sh DIRECTORY BRIDGES PROGRAM...
# The user has a home of its own, gets the directory, and its libvirt may use these bridges, as on a
# host that was set up for that. What is changed is changed in this mount namespace only.
set -eu
directory=$1 bridges=$2
shift 2
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir /mnt/home /mnt/run
cp -a /etc /mnt/etc
mkdir -p /mnt/etc/qemu
for bridge in $bridges; do echo "allow $bridge"; done >/mnt/etc/qemu/bridge.conf
mount --bind /mnt/etc /etc
cp /usr/lib/qemu/qemu-bridge-helper /mnt/helper
chmod 4755 /mnt/helper
mount --bind /mnt/helper /usr/lib/qemu/qemu-bridge-helper
mknod -m 666 /mnt/tun c 10 200
mount --bind /mnt/tun /dev/net/tun
chown 65534:65534 /mnt/home /mnt/run "$directory"
chmod 700 /mnt/home /mnt/run
# Python, and these tests, may lie where only root can look.
exec setpriv --reuid 65534 --regid 65534 --clear-groups \
    --inh-caps=+dac_read_search --ambient-caps=+dac_read_search \
    env HOME=/mnt/home XDG_RUNTIME_DIR=/mnt/run XDG_CACHE_HOME=/mnt/home/.cache "$@"
